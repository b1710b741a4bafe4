{{/*
A PriorityClass. Its value and whether it preempts cannot be changed, and an upgrade that tries leaves
the release failed; so one that is there and differs is refused before anything changes. One that is
as wanted and belongs to somebody else is used as it is and left alone.
*/}}
{{- define "geotrain.priority" -}}
{{- $name := printf "geotrain-%s" .value }}
{{- $wanted := index .root.Values.member.priorities .value | int }}
{{- $there := lookup "scheduling.k8s.io/v1" "PriorityClass" "" $name }}
{{- $notes := ($there.metadata).annotations | default dict }}
{{- $release := index $notes "meta.helm.sh/release-name" }}
{{- $home := index $notes "meta.helm.sh/release-namespace" }}
{{- $ours := and (eq ($release | default "") .root.Release.Name) (eq ($home | default "") .root.Release.Namespace) }}
{{- if $there }}
{{- $owner := "" }}
{{- if and $release (not $ours) }}
{{- $owner = printf " (it belongs to the release %s in %s)" $release $home }}
{{- else if not $ours }}
{{- $owner = " (no release of Helm made it)" }}
{{- end }}
{{- $has := int $there.value }}
{{- if ne $has $wanted }}
{{- fail (printf "PriorityClass %s has the value %d%s, and Kubernetes lets nobody change it to %d: set member.priorities.%s=%d, or `kubectl delete priorityclass %s` and repeat this (pods that are there keep the priority they have)" $name $has $owner $wanted .value $has $name) }}
{{- end }}
{{- $preempts := $there.preemptionPolicy | default "PreemptLowerPriority" }}
{{- if ne $preempts .preempts }}
{{- fail (printf "PriorityClass %s has the preemptionPolicy %s%s, and Kubernetes lets nobody change it to %s: `kubectl delete priorityclass %s` and repeat this (pods that are there keep what they have)" $name $preempts $owner .preempts $name) }}
{{- end }}
{{- end }}
{{- if or $ours (not $there) }}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: {{ $name }}
  labels: {{- include "geotrain.labels" .root | nindent 4 }}
value: {{ $wanted }}
{{- if ne .preempts "PreemptLowerPriority" }}
preemptionPolicy: {{ .preempts }}
{{- end }}
description: {{ .description }}
{{- end }}
{{- end }}
