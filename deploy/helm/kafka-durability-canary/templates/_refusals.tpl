{{- /* What cannot work is refused, with the remedy; settings.yaml, which is always made, includes it. */}}
{{- define "canary.refusals" -}}
{{- $forms := "see the forms in the chart's examples" }}
{{- if .Values.onePod }}
{{- if not .Values.runner.enabled }}
{{- fail "onePod puts API and scheduler into the runner's pod: set runner.enabled: true" }}
{{- end }}
{{- if gt (int .Values.runner.shards) 1 }}
{{- fail "onePod is one runner with one volume: set runner.shards: 1, or leave onePod out" }}
{{- end }}
{{- else if ne (include "canary.sharedStore" .) "yes" }}
{{- fail (printf "no store that all pods share: each would open a SQLite file of its own. Put postgresql+psycopg://USER:PASSWORD@HOST/DATABASE into a Secret and name it: secretEnv: [{name: CANARY_STORE__URL, secret: NAME, key: KEY}], or set onePod: true; %s" $forms) }}
{{- end }}
{{- $log := dig "probe_log" "url" "" .Values.settings }}
{{- if eq (include "canary.hasEnv" (dict "root" . "name" "CANARY_PROBE_LOG__URL")) "yes" }}{{ $log = "s3://" }}{{ end }}
{{- if and (not .Values.onePod) (ne (include "canary.reachable" (dict "root" . "url" $log)) "yes") }}
{{- fail (printf "settings.probe_log.url: %s is on the runner's own volume, where scheduler and API cannot read it. Name an object store (s3://…, gs://…, abfs://…) or a path below a volume that all pods mount (extraVolumes, ReadWriteMany), or set onePod: true; %s" ($log | default "nothing" | quote) $forms) }}
{{- end }}
{{- if .Values.reconcile.enabled }}
{{- if ne (include "canary.sharedStore" .) "yes" }}
{{- fail "reconcile.enabled: its pod has no store that says which records are the canary's own. Name a PostgreSQL (secretEnv), or leave reconcile out: the scheduler reconciles every night" }}
{{- end }}
{{- $log = include "canary.reconcileLog" . }}
{{- if ne (include "canary.reachable" (dict "root" . "url" $log)) "yes" }}
{{- fail (printf "reconcile.enabled: its pod cannot read the probe log at %s. Name an object store in settings.probe_log.url (or reconcile.probeLog), or leave reconcile out: the scheduler reconciles every night" ($log | quote)) }}
{{- end }}
{{- end }}
{{- if and .Values.reconcile.enabled .Values.reconcile.master (not (hasPrefix "local" .Values.reconcile.master)) }}
{{- range $option, $url := dict "dump" (include "canary.dump" .) "out" .Values.reconcile.out }}
{{- if ne (include "canary.reachable" (dict "root" $ "url" $url)) "yes" }}
{{- fail (printf "reconcile.%s: Spark's workers cannot write to %q, which is the job's own. Name an object store, or leave reconcile.master out: Spark runs in the job's pod then" $option $url) }}
{{- end }}
{{- end }}
{{- end }}
{{- with include "canary.inlineSecrets" (dict "at" "settings" "key" "" "value" .Values.settings) | trim }}
{{- fail (printf "secrets in values end up in a ConfigMap that everybody may read: %s. Put each into a Secret and name it in secretEnv ({name: CANARY_CLUSTERS__PROD__KAFKA__SASL_PASSWORD, secret: NAME, key: KEY}), or mount it with extraVolumes and say {file: PATH}" (splitList "\n" . | join ", ")) }}
{{- end }}
{{- end }}

{{- /* Whether an environment variable comes from a Secret. */}}
{{- define "canary.hasEnv" -}}
{{- $name := .name }}
{{- range .root.Values.secretEnv }}{{ if eq .name $name }}yes{{ end }}{{ end }}
{{- end }}

{{- define "canary.sharedStore" -}}
{{- $store := .Values.settings.store | default dict }}
{{- if eq (include "canary.hasEnv" (dict "root" . "name" "CANARY_STORE__URL")) "yes" -}}
yes
{{- else if or $store.url_file (kindIs "map" $store.url) (hasPrefix "postgresql" (toString $store.url)) -}}
yes
{{- end }}
{{- end }}

{{- /* Whether every pod reaches the same place by this URL: an object store, or a path on a volume that all mount. */}}
{{- define "canary.reachable" -}}
{{- $url := .url }}
{{- if and (contains "://" $url) (not (hasPrefix "file:" $url)) -}}
yes
{{- else }}
{{- $own := list }}
{{- range .root.Values.extraVolumes }}
{{- if or (hasKey . "emptyDir") (hasKey . "ephemeral") (hasKey . "hostPath") }}{{ $own = append $own .name }}{{ end }}
{{- end }}
{{- $found := "" }}
{{- range .root.Values.extraVolumeMounts }}
{{- $below := printf "%s/" (trimSuffix "/" .mountPath) }}
{{- if and (hasPrefix $below (printf "%s/" (trimPrefix "file://" $url))) (not (has .name $own)) }}{{ $found = "yes" }}{{ end }}
{{- end }}
{{- $found }}
{{- end }}
{{- end }}

{{- /* Names of settings that hold a secret in place, a line each. */}}
{{- define "canary.inlineSecrets" -}}
{{- $at := .at }}
{{- if kindIs "map" .value }}
{{- range $key, $value := .value }}
{{- include "canary.inlineSecrets" (dict "at" (printf "%s.%s" $at $key) "key" $key "value" $value) }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $place, $value := .value }}
{{- include "canary.inlineSecrets" (dict "at" (printf "%s[%d]" $at $place) "key" "" "value" $value) }}
{{- end }}
{{- else if .value }}
{{- $name := .key | lower | replace "_" "." }}
{{- $secret := regexMatch "password|secret|passphrase|key\\.pem|token\\.value|oauthbearer\\.config" $name }}
{{- $url := regexMatch "(?i)://([^/?#@:]*:[^/?#]*@|.*[?&][^=&]*(password|secret|token|key)[^=&]*=)" (toString .value) }}
{{- $receiver := or (regexMatch "^settings\\.notify\\[[0-9]+\\]\\.key$" $at) (regexMatch "://(hooks\\.slack\\.com|hc-ping\\.com|nosnch\\.in)/" (toString .value)) }}
{{- if or (and $secret (not (hasSuffix ".file" $name))) $url $receiver }}{{ printf "%s\n" $at }}{{ end }}
{{- end }}
{{- end }}
