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

{{- /* The end of the image's name: its digest, else its tag. */}}
{{- define "canary.image" -}}
{{- $image := .Values.image }}
{{- $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* The labels of a part's pods, and with a change of what they read only as they start, new pods. */}}
{{- define "canary.podMetadata" -}}
labels:
  {{- include "canary.selector" . | nindent 2 }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/settings: {{ toYaml .root.Values.settings | sha256sum }}
  {{- with .root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "canary.pod" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
serviceAccountName: {{ .account | default (include "canary.account" .root) }}
automountServiceAccountToken: {{ not (empty .account) }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
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
{{- if .root.Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml .root.Values.topologySpreadConstraints | nindent 2 }}
{{- else }}
topologySpreadConstraints:
  {{- $component := . }}
  {{- range tuple "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "canary.selector" $component | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "canary.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "canary.fromSecret" -}}
- name: {{ .name }}
  valueFrom: {secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}}
{{- end }}

{{- define "canary.container" -}}
image: {{ include "canary.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext: {{- include "canary.containerSecurity" . | nindent 2 }}
env:
  - {name: CANARY_CONFIG, value: /etc/canary/canary.yaml}
  - {name: CANARY_API__HOST, value: "0.0.0.0"}
  - {name: CANARY_API__PORT, value: "8080"}
  - {name: CANARY_API__AUTH__OPEN, value: {{ .root.Values.api.open | toJson | quote }}}
  {{- $api := .root.Values.settings.api | default dict }}
  {{- $ingress := .root.Values.api.ingress }}
  {{- with .root.Values.api.tls.secret }}
  - {name: CANARY_API__TLS__CERTIFICATE, value: /etc/canary-tls/tls.crt}
  - {name: CANARY_API__TLS__KEY, value: /etc/canary-tls/tls.key}
  {{- end }}
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
  {{- with .aliveFile }}
  - {name: CANARY_RUNNER__ALIVE_FILE, value: {{ . }}}
  {{- end }}
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
  {{- include "canary.fromSecret" . | nindent 2 }}
  {{- end }}
  {{- if .conf }}
  - {name: SPARK_CONF_DIR, value: /etc/canary-spark}
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  {{- end }}
volumeMounts:
  - {name: settings, mountPath: /etc/canary, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  - {name: data, mountPath: /var/lib/canary}
  {{- if .root.Values.api.tls.secret }}
  - {name: tls, mountPath: /etc/canary-tls, readOnly: true}
  {{- end }}
  {{- if .conf }}
  - {name: spark, mountPath: /etc/canary-spark, readOnly: true}
  {{- end }}
  {{- with .root.Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* HTTPS where the API serves TLS itself. */}}
{{- define "canary.scheme" -}}
{{- $own := dig "api" "tls" "" .Values.settings }}
{{- if or .Values.api.tls.secret $own }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- define "canary.api" -}}
- name: api
  {{- include "canary.container" (dict "root" .) | nindent 2 }}
  args: [serve]
  ports: [{name: http, containerPort: 8080}]
  {{- $healthy := dict "path" "/healthz" "port" "http" "scheme" (include "canary.scheme" .) }}
  startupProbe: {httpGet: {{ toJson $healthy }}, periodSeconds: 2, timeoutSeconds: 3, failureThreshold: 60}
  livenessProbe: {httpGet: {{ toJson $healthy }}, periodSeconds: 10, timeoutSeconds: 3}
  # The process answers; a store that is away must not take /metrics (which says so) out of service.
  readinessProbe: {httpGet: {{ toJson $healthy }}, periodSeconds: 5, timeoutSeconds: 3}
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
{{- with .Values.api.tls.secret }}
- {name: tls, secret: {secretName: {{ . }}}}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Spark's properties, where the job has any: those of executors that are pods, and over them reconcile.conf. */}}
{{- define "canary.sparkConf" -}}
{{- $conf := dict }}
{{- if hasPrefix "k8s://" .Values.reconcile.master }}
{{- $executors := .Values.reconcile.executors }}
{{- $conf = dict
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.container.image" (include "canary.image" .)
  "spark.kubernetes.container.image.pullPolicy" .Values.image.pullPolicy
  "spark.driver.host" "${env:POD_IP}"
  "spark.kubernetes.driver.pod.name" "${env:HOSTNAME}"
  "spark.kubernetes.executor.podTemplateFile" "/etc/canary-spark/executor.yaml"
  "spark.kubernetes.authenticate.executor.serviceAccountName" (include "canary.account" .)
  "spark.executor.instances" $executors.instances
  "spark.executor.cores" $executors.cores
  "spark.executor.memory" $executors.memory
  "spark.executor.memoryOverhead" $executors.memoryOverhead
}}
{{- end }}
{{- merge .Values.reconcile.conf $conf | toYaml }}
{{- end }}

{{- define "canary.sparkContainer" -}}
{{- include "canary.container" . }}
resources: {{- toYaml .root.Values.reconcile.resources | nindent 2 }}
{{- end }}

{{- define "canary.dump" -}}{{ .Values.reconcile.dump | default "/var/lib/canary/dump" }}{{- end }}

{{- define "canary.reconcileLog" -}}
{{- .Values.reconcile.probeLog | default (dig "probe_log" "url" "" .Values.settings) }}
{{- end }}
