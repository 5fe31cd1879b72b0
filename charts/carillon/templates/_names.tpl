{{- define "carillon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "carillon.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "carillon.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "carillon.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "carillon.selector" -}}
app.kubernetes.io/name: {{ include "carillon.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "carillon.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "carillon.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "carillon.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "carillon.secretName" -}}
{{ include "carillon.fullname" . }}-generated
{{- end -}}

{{/* A StatefulSet's name is in a label of its pods, with 11 characters behind it: at most 52 of the 63 are left. */}}
{{- define "carillon.postgresqlName" -}}
{{ include "carillon.fullname" . | trunc 41 | trimSuffix "-" }}-postgresql
{{- end -}}

{{- define "carillon.leaseName" -}}
{{ include "carillon.fullname" . }}-controller
{{- end -}}

{{- define "carillon.accountNamespace" -}}
{{ .Values.bootstrap.namespace | default .Release.Namespace }}
{{- end -}}

{{/* Mistakes that the values' schema cannot see. */}}
{{- define "carillon.validate" -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" (include "carillon.fullname" .)) -}}
{{- fail (printf "a Service cannot be called \"%s-gateway\": before Kubernetes 1.36 its name must begin with a letter, and it never has a dot; set fullnameOverride" (include "carillon.fullname" .)) -}}
{{- end -}}
{{- if regexMatch ":[^/]*$" .Values.image.repository -}}
{{- fail (printf "image.repository: %q has a tag or a digest: set image.tag or image.digest instead" .Values.image.repository) -}}
{{- end -}}
{{- if and .Values.bootstrap.enabled .Values.watchNamespaces (not (has (include "carillon.accountNamespace" .) .Values.watchNamespaces)) -}}
{{- fail (printf "bootstrap.namespace is %q, which is not in watchNamespaces: its jobs would never run; add it, or set bootstrap.namespace" (include "carillon.accountNamespace" .)) -}}
{{- end -}}
{{- if and .Values.postgresql.enabled (or .Values.database.url .Values.database.existingSecret) -}}
{{- fail "postgresql.enabled and database.url or database.existingSecret are both set: choose one database" -}}
{{- end -}}
{{- if and .Values.database.url .Values.database.existingSecret -}}
{{- fail "database.url and database.existingSecret are both set: choose one, and set the other to \"\"" -}}
{{- end -}}
{{- with .Values.gateway.autoscaling -}}
{{- if and .enabled (gt (int64 .minReplicas) (int64 .maxReplicas)) -}}
{{- fail (printf "gateway.autoscaling.minReplicas is %d, which is more than maxReplicas, %d" (int64 .minReplicas) (int64 .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.singleSignOn.issuer (not (and .Values.singleSignOn.clientId .Values.publicUrl)) -}}
{{- fail "singleSignOn.issuer is set: set singleSignOn.clientId and publicUrl too" -}}
{{- end -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" -}}
{{- $four := printf "%[1]s(\\.%[1]s){3}(/(3[0-2]|[12]?[0-9]))?" $octet -}}
{{- $six := "(\\[[0-9A-Fa-f:.]+\\]|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]*)(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?" -}}
{{- $port := "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})" -}}
{{- range .Values.allowDestinations -}}
{{- if not (regexMatch (printf "^(%s|%s)(:%s)?$" $four $six $port) .) -}}
{{- fail (printf "allowDestinations: %q is not CIDR[:port], for instance 10.0.0.0/8 or ::1/128:8080" .) -}}
{{- end -}}
{{- end -}}
{{- $own := printf "%s\n%s\n%s" (include "carillon.gatewayEnvironment" .) (include "carillon.controllerEnvironment" .) (include "carillon.migrateEnvironment" .) -}}
{{- $given := dict -}}
{{- range .Values.extraEnv -}}
{{- if hasKey $given .name -}}
{{- fail (printf "extraEnv: %s is given twice" .name) -}}
{{- end -}}
{{- $_ := set $given .name true -}}
{{- if regexMatch (printf "(?m)^- name: %s$" (regexQuoteMeta .name)) $own -}}
{{- fail (printf "extraEnv: the chart sets %s itself: leave it out, and use the value for it, if there is one" .name) -}}
{{- end -}}
{{- end -}}
{{- range $part := list "gateway" "controller" -}}
{{- range $label := keys ((index $.Values $part).podLabels | default dict) | sortAlpha -}}
{{- if or (hasKey (include "carillon.labels" $ | fromYaml) $label) (has $label (list "app.kubernetes.io/component" "carillon.dev/metrics")) -}}
{{- fail (printf "%s.podLabels: the chart sets %s itself: leave it out" $part $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.watchNamespaces .Values.headerSecretNamespaces -}}
{{- range $namespace := .Values.headerSecretNamespaces -}}
{{- if not (has $namespace $.Values.watchNamespaces) -}}
{{- fail (printf "headerSecretNamespaces: %q is not in watchNamespaces" $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Restricted Pod Security, for every pod of the chart. */}}
{{- define "carillon.podSecurityContext" -}}
runAsNonRoot: true
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "carillon.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}
