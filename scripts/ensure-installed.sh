#!/bin/sh
# Installs the dependencies when they are missing or older than the lock file, so that every npm script
# works in a fresh clone. npm itself may run under an old Node here; Node 24 is one of the dependencies.
# Talks on standard error only: some scripts print a result, and nothing else, on standard output.
set -eu
cd "$(dirname "$0")/.."

installed() {
  # npm writes this file last. `find -newer` because `test -nt` is not POSIX.
  [ -f node_modules/.package-lock.json ] &&
    [ -z "$(find package-lock.json -newer node_modules/.package-lock.json)" ] &&
    has_node
}

# Our Node, or the machine's where somebody installed without development dependencies or install scripts.
has_node() {
  [ -x node_modules/.bin/node ] || new_enough
}

new_enough() {
  node -e 'const [major, minor] = process.versions.node.split(".").map(Number)
    process.exit(major > 24 || (major === 24 && minor >= 12) ? 0 : 1)' 2>/dev/null
}

lock=.install-lock
# While another process installs, what looks finished may be half done.
[ ! -d "$lock" ] && installed && exit 0

if [ -L node_modules ]; then
  echo "carillon: $(pwd)/node_modules is a link, and npm would empty what it leads to: remove the link" >&2
  exit 1
fi

# `npm ci` empties node_modules: two at once would delete each other's work. mkdir is the atomic test-and-set of
# POSIX. The lock of a process that died is taken over, also if that had our own number: in a container that is
# started again the numbers are the same each time.
self="$$ $(uname -n)"
until mkdir "$lock" 2>/dev/null; do
  if [ ! -w . ]; then
    echo "carillon: cannot install the dependencies: $(pwd) is not writable" >&2
    exit 1
  fi
  owner=$(cat "$lock/pid" 2>/dev/null || true)
  if [ -n "$owner" ] && { [ "$owner" = "$self" ] || ! kill -0 "${owner%% *}" 2>/dev/null; }; then
    rm -rf "$lock"
    continue
  fi
  [ -n "${waiting:-}" ] ||
    echo "Waiting for another installation to finish (if there is none, remove $(pwd)/$lock) ..." >&2
  waiting=1
  sleep 1
done
trap 'rm -rf "$lock"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
echo "$self" >"$lock/pid"
if installed; then exit 0; fi

echo "Installing dependencies (once; about a minute) ..." >&2
# The flags override NODE_ENV and the user's npm settings: Node 24 is a development dependency, PostgreSQL an
# optional one. Errors only: an old npm warns about engines, which do not matter since scripts run on Node 24.
install() {
  if ! npm "$@" --include=dev --include=optional --no-audit --no-fund --loglevel=error >&2; then
    echo "carillon: the dependencies could not be installed: the lines above say why" >&2
    exit 1
  fi
}
old=
new_enough || old=1
install ci
if ! has_node; then
  echo "carillon: Node.js $(node --version) is too old, and npm did not install Node 24: where its setting ignore-scripts is on, run npm ci --ignore-scripts=false once, or use Node.js 24.12 or newer" >&2
  exit 1
fi
# Under an old Node npm silently leaves out optional packages that ask for a newer one, such as the native part of
# the dashboard's build. Now that there is a newer Node, a second run adds them. Until then nothing counts as
# installed.
if [ -n "$old" ]; then
  rm -f node_modules/.package-lock.json
  PATH="$(pwd)/node_modules/.bin:$PATH" install install --no-save
fi
