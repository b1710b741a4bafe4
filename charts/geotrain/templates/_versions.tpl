{{/* The release of kube-scheduler for each minor version of Kubernetes that the chart supports. */}}
{{- define "geotrain.schedulers" -}}
"33": v1.33.13
"34": v1.34.4
"35": v1.35.4
"36": v1.36.3
"37": v1.37.2
{{- end }}

{{/*
The cluster's minor version, whatever its vendor adds: v1.33.4-gke.100, v1.34.1+k3s1. Others than these
never come here (kubeVersion in Chart.yaml) but from `helm lint`, which looks at no cluster.
*/}}
{{- define "geotrain.minor" -}}
{{- $minor := regexReplaceAll "^v?1\\.([0-9]+).*$" .Capabilities.KubeVersion.Version "${1}" }}
{{- hasKey (include "geotrain.schedulers" . | fromYaml) $minor | ternary $minor "37" }}
{{- end }}

{{/* The tag of kube-scheduler's image: the one asked for, if it fits the cluster, or the cluster's own. */}}
{{- define "geotrain.schedulerTag" -}}
{{- $minor := include "geotrain.minor" . }}
{{- $tag := .Values.member.scheduler.image.tag | default "" }}
{{- $own := index (include "geotrain.schedulers" . | fromYaml) $minor }}
{{- if $tag }}
{{- if not (regexMatch "^v?1\\.[0-9]+([.+_@-].*)?$" $tag) }}
{{- fail (printf "member.scheduler.image.tag %q does not begin with a version of Kubernetes, so nobody can tell whether it suits this cluster (%s): give one such as %s, or leave it empty" $tag .Capabilities.KubeVersion.Version $own) }}
{{- end }}
{{- $apart := sub (regexReplaceAll "^v?1\\.([0-9]+).*$" $tag "${1}" | int) (int $minor) }}
{{- if or (gt $apart 1) (lt $apart -1) }}
{{- fail (printf "member.scheduler.image.tag %s is more than one minor version from this cluster (%s), which Kubernetes does not support: give one from v1.%d to v1.%d, such as %s, or leave it empty" $tag .Capabilities.KubeVersion.Version (sub (int $minor) 1) (add (int $minor) 1) $own) }}
{{- end }}
{{- end }}
{{- $tag | default $own }}
{{- end }}
