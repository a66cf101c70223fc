{{- define "runai.name" -}}
{{- if contains "runai" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-runai" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "runai.selector" -}}
app.kubernetes.io/name: jupyter-runai
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "runai.labels" -}}
{{ include "runai.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "runai.jobs" -}}
{{ .Values.jobs.namespace | default (printf "%s-jobs" .Release.Namespace) }}
{{- end }}

{{- define "runai.nodes" -}}
{{ .Values.nodeAgent.namespace | default (printf "%s-nodes" .Release.Namespace) }}
{{- end }}

{{- define "runai.nodeAgent" -}}
app.kubernetes.io/name: jupyter-runai-node-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The path before /api. */ -}}
{{- define "runai.path" -}}
{{ if eq .Values.auth "hub" }}{{ .Values.hub.baseUrl }}services/{{ .Values.hub.serviceName }}/{{ else }}/{{ end }}
{{- end }}

{{- define "runai.url" -}}
http://{{ include "runai.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}{{ include "runai.path" . }}
{{- end }}

{{- /* Labels of the pods of jobs (scheduler/engines/kubernetes/names.py). */ -}}
{{- define "runai.jobLabels" -}}
app.kubernetes.io/managed-by: jupyter-runai
runai.jupyter.org/instance: {{ include "runai.instance" . }}
{{- end }}

{{- define "runai.instance" -}}
{{ .Release.Namespace | trunc 40 }}.{{ include "runai.name" . | trunc 20 | trimSuffix "-" }}
{{- end }}
