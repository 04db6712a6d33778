{{- define "carillon.roles" -}}[api, project, dispatch, deliver, collect]{{- end -}}

{{- /* The Deployments: name → part. */ -}}
{{- define "carillon.parts" -}}
{{- if .Values.apart -}}
  {{- toYaml .Values.parts -}}
{{- else -}}
  {{- toYaml (dict "all" (merge (dict "roles" (include "carillon.roles" . | fromYamlArray)) .Values.together)) -}}
{{- end -}}
{{- end -}}

{{- define "carillon.labels" -}}
app.kubernetes.io/name: carillon
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "carillon.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- /* What would start and serve nobody is refused here. */ -}}
{{- define "carillon.check" -}}
{{- $settings := .Values.settings -}}
{{- range list "CARILLON_EVENTSTORE_URL" "CARILLON_DATABASE_URL" -}}
  {{- if not (or (get $settings .) (has . $.Values.secret.keys)) -}}
    {{- fail (printf "settings.%s is missing: both stores are outside of the chart; an address with a password belongs into the Secret and secret.keys" .) -}}
  {{- end -}}
{{- end -}}
{{- if not (or .Values.tls $settings.CARILLON_TRUSTED_PROXIES) -}}
  {{- fail "tls is missing: name a Secret with a certificate, or, if a proxy ends TLS, its addresses in settings.CARILLON_TRUSTED_PROXIES" -}}
{{- end -}}
{{- range .Values.secret.keys -}}
  {{- if hasKey $settings . -}}
    {{- fail (printf "%s is in settings and in secret.keys: give one of them" .) -}}
  {{- end -}}
{{- end -}}
{{- if .Values.apart -}}
  {{- $there := list -}}
  {{- range .Values.parts }}{{ $there = concat $there (.roles | default list) }}{{ end -}}
  {{- range include "carillon.roles" . | fromYamlArray -}}
    {{- if not (has . $there) }}{{ fail (printf "parts: none has the role %s" .) }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- end -}}
