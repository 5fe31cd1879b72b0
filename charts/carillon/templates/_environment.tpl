{{- define "carillon.databaseEnvironment" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      {{- if .Values.database.existingSecret }}
      name: {{ .Values.database.existingSecret | quote }}
      key: {{ .Values.database.existingSecretKey | quote }}
      {{- else }}
      name: {{ include "carillon.secretName" . }}
      key: database-url
      {{- end }}
- name: CARILLON_ENCRYPTION_KEYS
  valueFrom:
    secretKeyRef:
      {{- if .Values.encryption.existingSecret }}
      name: {{ .Values.encryption.existingSecret | quote }}
      key: {{ .Values.encryption.existingSecretKey | quote }}
      {{- else }}
      name: {{ include "carillon.secretName" . }}
      key: encryption-keys
      {{- end }}
{{- end -}}

{{/* The database's authority, for each container that connects to it: sslrootcert names a file. */}}
{{- define "carillon.databaseCaMount" -}}
{{- if .Values.database.caSecret }}
volumeMounts:
  - { name: database-ca, mountPath: /etc/carillon/database-ca, readOnly: true }
{{- end }}
{{- end -}}

{{- define "carillon.databaseCaVolume" -}}
{{- with .Values.database.caSecret }}
volumes:
  - { name: database-ca, secret: { secretName: {{ . | quote }} } }
{{- end }}
{{- end -}}

{{/* Numbers in values are floats, which templates write as 1e+06 from a million on. Null: the program's default. */}}
{{- define "carillon.whole" -}}
{{- if not (kindIs "invalid" .) }}{{ int64 . }}{{ end -}}
{{- end -}}

{{- define "carillon.environment" -}}
{{ include "carillon.databaseEnvironment" . }}
- name: CARILLON_JOB_STORE
  value: kubernetes
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: POD_NAMESPACE
  valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
- name: CARILLON_LEASE_NAME
  value: {{ include "carillon.leaseName" . }}
- name: PORT
  value: "8080"
- name: CARILLON_METRICS_PORT
  value: "9090"
- name: CARILLON_LOG_LEVEL
  value: {{ .Values.logLevel | quote }}
- name: CARILLON_DATABASE_CONNECTIONS
  value: {{ include "carillon.whole" .Values.database.connections | quote }}
- name: CARILLON_RETENTION_DAYS
  value: {{ include "carillon.whole" .Values.retentionDays | quote }}
- name: CARILLON_FINISHED_JOBS_DAYS
  value: {{ include "carillon.whole" .Values.finishedJobsDays | quote }}
- name: CARILLON_WATCH_NAMESPACES
  value: {{ join "," .Values.watchNamespaces | quote }}
- name: CARILLON_HEADER_SECRET_NAMESPACES
  value: {{ join "," .Values.headerSecretNamespaces | quote }}
- name: CARILLON_ALLOW_DESTINATIONS
  value: {{ join "," .Values.allowDestinations | quote }}
- name: CARILLON_ALLOW_OWN_NAMESPACE_SERVICES
  value: {{ .Values.allowOwnNamespaceServices | quote }}
- name: CARILLON_CLUSTER_DOMAIN
  value: {{ .Values.clusterDomain | quote }}
{{- end -}}

{{- define "carillon.controllerEnvironment" -}}
{{ include "carillon.environment" . }}
- name: CARILLON_DELIVERY_CONCURRENCY
  value: {{ include "carillon.whole" .Values.controller.deliveryConcurrency | quote }}
{{- end -}}

{{- define "carillon.gatewayEnvironment" -}}
{{ include "carillon.environment" . }}
- name: CARILLON_RATE_LIMIT
  value: {{ include "carillon.whole" .Values.gateway.rateLimit.perSecond | quote }}
- name: CARILLON_RATE_LIMIT_BURST
  value: {{ include "carillon.whole" .Values.gateway.rateLimit.burst | quote }}
{{- with .Values.gateway.trustedProxies }}
- name: CARILLON_TRUSTED_PROXIES
  value: {{ join "," . | quote }}
{{- end }}
{{- with include "carillon.singleSignOnEnvironment" . | trim }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "carillon.migrateEnvironment" -}}
{{ include "carillon.databaseEnvironment" . }}
- name: CARILLON_DATABASE_WAIT_SECONDS
  value: "120"
{{- if .Values.bootstrap.enabled }}
- name: CARILLON_BOOTSTRAP_ACCOUNT
  value: {{ .Values.bootstrap.account | quote }}
- name: CARILLON_BOOTSTRAP_NAMESPACE
  value: {{ include "carillon.accountNamespace" . | quote }}
{{- with .Values.bootstrap.email }}
- name: CARILLON_BOOTSTRAP_EMAIL
  value: {{ . | quote }}
- name: CARILLON_BOOTSTRAP_PASSWORD
  valueFrom:
    secretKeyRef:
      {{- if $.Values.bootstrap.existingSecret }}
      name: {{ $.Values.bootstrap.existingSecret | quote }}
      key: {{ $.Values.bootstrap.existingSecretKey | quote }}
      {{- else }}
      name: {{ include "carillon.secretName" $ }}
      key: admin-password
      {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Only variables that have a value: extraEnv may set the others. */}}
{{- define "carillon.singleSignOnEnvironment" -}}
{{- with .Values.publicUrl }}
- name: CARILLON_PUBLIC_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.singleSignOn }}
{{- if .issuer }}
- name: CARILLON_OIDC_ISSUER
  value: {{ .issuer | quote }}
- name: CARILLON_OIDC_CLIENT_ID
  value: {{ .clientId | quote }}
- name: CARILLON_OIDC_NAME
  value: {{ .name | quote }}
{{- if .existingSecret }}
- name: CARILLON_OIDC_CLIENT_SECRET
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret | quote }}
      key: {{ .existingSecretKey | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Waits for the database, migrates it (safe with several at once), creates the first account. Called with the `resources` of
the container that comes after it: a pod needs no more for both, and has what a quota asks of each of its containers.
*/}}
{{- define "carillon.migrateContainer" -}}
- name: migrate
  image: {{ include "carillon.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [cmd/migrate.ts]
  env:
    {{- include "carillon.migrateEnvironment" . | nindent 4 }}
    {{- with .Values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with include "carillon.databaseCaMount" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  securityContext:
    {{- include "carillon.containerSecurityContext" . | nindent 4 }}
  resources:
    {{- toYaml .resources | nindent 4 }}
{{- end -}}

{{- define "carillon.probes" -}}
startupProbe:
  httpGet: { path: /healthz, port: metrics }
  periodSeconds: 1
  failureThreshold: 180
# Readiness only: a process that waits for its database must not be restarted, however long it waits.
readinessProbe:
  httpGet: { path: /readyz, port: metrics }
  periodSeconds: 2
  timeoutSeconds: 3
livenessProbe:
  httpGet: { path: /healthz, port: metrics }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{- define "carillon.placement" -}}
{{- with .part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "carillon.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
  {{- end }}
{{- end -}}
