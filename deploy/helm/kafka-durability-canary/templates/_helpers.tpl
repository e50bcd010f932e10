{{- define "canary.name" -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- end }}

{{- define "canary.labels" -}}
app.kubernetes.io/name: kafka-durability-canary
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "canary.selector" -}}
app.kubernetes.io/name: kafka-durability-canary
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "canary.account" -}}
{{- .Values.serviceAccount.name | default (include "canary.name" .) }}
{{- end }}

{{- define "canary.pod" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
serviceAccountName: {{ include "canary.account" .root }}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "canary.container" -}}
image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: CANARY_CONFIG, value: /etc/canary/canary.yaml}
  - {name: CANARY_API__HOST, value: "0.0.0.0"}
  - {name: CANARY_API__PORT, value: "8080"}
  - {name: CANARY_API__AUTH__OPEN, value: {{ .root.Values.api.open | toJson | quote }}}
  {{- $api := .root.Values.settings.api | default dict }}
  {{- $ingress := .root.Values.api.ingress }}
  {{- if and $ingress.enabled (not $api.url) }}
  - {name: CANARY_API__URL, value: "{{ ternary "https" "http" (not (empty $ingress.tlsSecret)) }}://{{ $ingress.host }}"}
  {{- end }}
  {{- $service := printf "%s-api" (include "canary.name" .root) }}
  {{- $full := printf "%s.%s" $service .root.Release.Namespace }}
  {{- $names := list $service $full (printf "%s.svc" $full) (printf "%s.svc.cluster.local" $full) }}
  {{- if $ingress.enabled }}{{ $names = append $names $ingress.host }}{{ end }}
  - {name: CANARY_API__HOSTS, value: {{ concat $names ($api.hosts | default list) | toJson | quote }}}
  - name: CANARY_RUNNER__NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- if gt (int (.shards | default 1)) 1 }}
  - name: POD_INDEX
    valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
  {{- $shards := .shards }}
  {{- range $place, $cluster := .root.Values.settings.clusters }}
  - {name: CANARY_CLUSTERS__{{ $place }}__SHARD, value: "$(POD_INDEX)/{{ $shards }}"}
  {{- end }}
  {{- end }}
  {{- if and .root.Values.onePod (ne (include "canary.sharedStore" .root) "yes") (not (dig "store" "url" "" .root.Values.settings)) }}
  - {name: CANARY_STORE__URL, value: "sqlite:////var/lib/canary/store.db"}
  {{- end }}
  {{- range .root.Values.secretEnv }}
  - name: {{ .name }}
    valueFrom: {secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}}
  {{- end }}
volumeMounts:
  - {name: settings, mountPath: /etc/canary, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  - {name: data, mountPath: /var/lib/canary}
  {{- with .root.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "canary.api" -}}
- name: api
  {{- include "canary.container" (dict "root" .) | nindent 2 }}
  args: [serve]
  ports: [{name: http, containerPort: 8080}]
  livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 10, timeoutSeconds: 3}
  # The process answers; a store that is away must not take /metrics (which says so) out of service.
  readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 5, timeoutSeconds: 3}
  resources: {{- toYaml .Values.api.resources | nindent 4 }}
{{- end }}

{{- define "canary.scheduler" -}}
- name: scheduler
  {{- include "canary.container" (dict "root" .) | nindent 2 }}
  args: [schedule]
  resources: {{- toYaml .Values.scheduler.resources | nindent 4 }}
{{- end }}

{{- /* The component whose pods answer for the API. */}}
{{- define "canary.apiComponent" -}}{{ ternary "runner" "api" .Values.onePod }}{{- end }}

{{- define "canary.volumes" -}}
- {name: settings, configMap: {name: {{ include "canary.name" . }}-settings}}
- {name: tmp, emptyDir: {}}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
