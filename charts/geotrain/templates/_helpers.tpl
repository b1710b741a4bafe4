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

{{/* What the controller reads and writes wherever it places jobs or runs a router. */}}
{{- define "geotrain.memberRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
- apiGroups: [""] # a job's namespace is made in each member that runs a part of it
  resources: [namespaces]
  verbs: [get, list, watch, create]
- apiGroups: [""]
  resources: [pods, services, configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""] # the sidecars' status, and nothing that writes
  resources: [pods/proxy]
  verbs: [get]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps] # routers, and whether the scheduler is ready
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [get, list]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [get, list, watch, create, patch]
{{- end }}
