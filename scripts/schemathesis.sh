#!/bin/sh
# Tries the REST API against its own OpenAPI document with generated requests: starts a standalone with
# state of its own, lets schemathesis at it, ends it. Needs Python 3.10 or later with venv.
#   sh scripts/schemathesis.sh [SECONDS] [more options of `st run`]
set -eu
cd "$(dirname "$0")/.."
seconds="${1:-60}"
[ $# -eq 0 ] || shift
PATH="$PWD/node_modules/.bin:$PATH"
state="$(mktemp -d)"
pid=
finish() {
  [ -z "$pid" ] || { kill "$pid" 2>/dev/null && wait "$pid" || true; }
  rm -rf "$state"
}
trap finish EXIT
trap 'exit 1' INT TERM

venv="${SCHEMATHESIS_VENV:-$state/venv}"
if [ ! -x "$venv/bin/st" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet 'schemathesis>=4.32,<5'
fi

CARILLON_DATA_DIR="$state/data" PORT=0 CARILLON_METRICS_PORT=0 CARILLON_LOG_LEVEL=error \
  node cmd/standalone.ts >"$state/log" 2>&1 &
pid=$!
tries=0
until grep -q '^Ready: ' "$state/log"; do
  tries=$((tries + 1))
  if [ "$tries" -gt 120 ] || ! kill -0 "$pid" 2>/dev/null; then
    cat "$state/log" >&2
    exit 1
  fi
  sleep 0.5
done
key="$(sed -n 's/^API key: //p' "$state/log")"
url="$(sed -n 's/^Ready: //p' "$state/log")"

"$venv/bin/st" --config-file scripts/schemathesis.toml run "$url/openapi.json" \
  --header "X-API-Key: $key" --max-examples 20 --max-time "$seconds" --continue-on-failure "$@"
