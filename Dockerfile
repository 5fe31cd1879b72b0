# Carillon in one image: gateway, controller, migrate and the admin command for Kubernetes, and standalone with a
# PostgreSQL of its own (deploy/compose.yaml). The embedded PostgreSQL and everything that only builds or tests stay out of it.

FROM node:24-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# No production dependency needs an install script.
RUN npm ci --omit=dev --omit=optional --ignore-scripts \
  # Types and source maps are half of the files and nothing reads them.
  && mkdir /data /compile-cache \
  && find node_modules -type f \( -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.map' \) -delete

FROM node:24-bookworm-slim AS dashboard
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json ./
COPY scripts/build-dashboard.ts ./scripts/
COPY src ./src
RUN node scripts/build-dashboard.ts

# The same paths in the build and in the final image, so that nothing has to be moved.
FROM gcr.io/distroless/nodejs24-debian12:nonroot
WORKDIR /app
ENV NODE_ENV=production CARILLON_LOG_FORMAT=json
# Buffers of more than 128 KiB go back to the system when they are freed. Without this, glibc raises that size with each
# larger buffer, up to 32 MiB, and keeps much of what large requests once took.
ENV MALLOC_MMAP_THRESHOLD_=131072
COPY --from=dependencies /app/node_modules ./node_modules
# Standalone's state, when a volume is mounted there; Kubernetes needs none.
COPY --from=dependencies --chown=65532:65532 /data /data
COPY --from=dependencies --chown=65532:65532 /compile-cache ./.compile-cache
COPY package.json LICENSE ./
COPY cmd ./cmd
COPY src ./src
COPY --from=dashboard /app/src/dashboard/dist ./src/dashboard/dist
COPY --chmod=0755 deploy/image/carillon /usr/local/bin/carillon
# Node keeps compiled code apart for each user: this must be the one that runs.
USER 65532:65532
ENV NODE_COMPILE_CACHE=/app/.compile-cache
COPY deploy/image/compile.ts ./deploy/image/
RUN ["/nodejs/bin/node", "deploy/image/compile.ts"]
EXPOSE 8080 9090
ENTRYPOINT ["/nodejs/bin/node"]
CMD ["cmd/gateway.ts"]
