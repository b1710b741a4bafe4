{{- define "geotrain.labels" -}}
app.kubernetes.io/name: geotrain
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "geotrain.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Of every pod. */}}
{{- define "geotrain.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Of every container. */}}
{{- define "geotrain.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "geotrain.pull" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "geotrain.placing" -}}
{{- with .nodeSelector }}
nodeSelector:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}

{{- define "geotrain.schedulerPriority" -}}
{{- $own := eq .Release.Namespace "kube-system" | ternary "system-cluster-critical" "geotrain-training" }}
{{- .Values.member.scheduler.priorityClassName | default $own }}
{{- end }}

{{/*
What the controller reads wherever jobs or routers run, and writes where jobs are placed. Each verb is
one that it uses: tests compare these rules with the audit logs of API servers.
*/}}
{{- define "geotrain.memberRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""] # whether a job's namespace is open to it; none is ever made
  resources: [namespaces]
  verbs: [list, watch]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list]
- apiGroups: [""] # the sidecars' status and the router's counts, and nothing that writes
  resources: [pods/proxy]
  verbs: [get]
- apiGroups: [apps] # whether the scheduler is ready
  resources: [deployments]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch{{ if .places }}, create, delete{{ end }}]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch{{ if .places }}, create, patch, delete{{ end }}]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch{{ if .places }}, create, patch, delete{{ end }}]
{{- end }}
