{{/*
What a hook leaves: its account while it runs, and the Job where it failed, for its log. `events` are
Helm's; `weight` puts accounts before the Job that uses them.
*/}}
{{- define "geotrain.hookNotes" -}}
helm.sh/hook: {{ .events }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* An account with ClusterRole `rules`, and `own` rules in the release's namespace, while a hook runs. */}}
{{- define "geotrain.hookAccount" -}}
{{- $notes := include "geotrain.hookNotes" (dict "events" .events "weight" "-10") | nindent 4 }}
{{- $labels := include "geotrain.labels" .root | nindent 4 }}
{{- $place := .root.Release.Namespace }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ $place }}
  labels: {{- $labels }}
  annotations: {{- $notes }}
{{- range $kind, $rules := dict "ClusterRole" .rules "Role" .own }}
{{- if $rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $.name }}
  {{- if eq $kind "Role" }}
  namespace: {{ $place }}
  {{- end }}
  labels: {{- $labels }}
  annotations: {{- $notes }}
rules:
{{ $rules | trim }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $.name }}
  {{- if eq $kind "Role" }}
  namespace: {{ $place }}
  {{- end }}
  labels: {{- $labels }}
  annotations: {{- $notes }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $.name }}
subjects:
- kind: ServiceAccount
  name: {{ $.name }}
  namespace: {{ $place }}
{{- end }}
{{- end }}
{{- end }}

{{/* A Job that runs `args` of the image once; Helm prints its log where it fails. */}}
{{- define "geotrain.hookJob" -}}
{{- $placing := .root.Values.hub.enabled | ternary .root.Values.hub .root.Values.member.scheduler }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .job }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "geotrain.labels" .root | nindent 4 }}
    app.kubernetes.io/component: hook
  annotations: {{- include "geotrain.hookNotes" (dict "events" .events "weight" "0") | nindent 4 }}
    helm.sh/hook-output-log-policy: hook-failed
spec:
  backoffLimit: {{ .retries }}
  activeDeadlineSeconds: 600
  ttlSecondsAfterFinished: 86400
  template:
    metadata:
      labels: {{- include "geotrain.labels" .root | nindent 8 }}
        app.kubernetes.io/component: hook
      {{- with .root.Values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      restartPolicy: Never
      securityContext: {{- include "geotrain.podSecurity" .root | nindent 8 }}
      {{- include "geotrain.pull" .root | nindent 6 }}
      {{- include "geotrain.placing" $placing | nindent 6 }}
      containers:
      - name: hook
        image: {{ include "geotrain.image" .root }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args: {{ .args | toJson }}
        terminationMessagePolicy: FallbackToLogsOnError
        securityContext: {{- include "geotrain.containerSecurity" .root | nindent 10 }}
        resources:
          requests: {cpu: 50m, memory: 128Mi}
          limits: {memory: 512Mi}
        volumeMounts:
        - {name: tmp, mountPath: /tmp}
      volumes:
      - name: tmp
        emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- end }}
