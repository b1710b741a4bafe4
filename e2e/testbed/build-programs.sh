#!/usr/bin/env bash
# Builds the Kubernetes programs of the test bed and of the integration tests from Go modules, so that
# a machine that reaches no image registry has them too.
#
# Usage: build-programs.sh [FOLDER]     (default: $GEOTRAIN_PROGRAMS or ~/.cache/geotrain/bin)
#
# About 20 minutes on two cores from nothing, 2 with Go's build cache warm, at once when all are there.
# Each program is put in its place when it is whole, with its version in FOLDER/.versions; one that is
# there at the wanted version is skipped, so an interrupted build goes on where it was.
set -euo pipefail

k8s=1.37.2
recipe=1 # raise it when the way of building changes
out=$(realpath -m "${1:-${GEOTRAIN_PROGRAMS:-$HOME/.cache/geotrain/bin}}")
stamps=$out/.versions
mkdir -p "$stamps"
exec 9> "$stamps/.lock"
flock 9 # one build at a time
rm -rf "$out"/.build.*
work=$(mktemp -d "$out/.build.XXXXXX")
trap 'rm -rf "$work"' EXIT

is_there() { # PROGRAM VERSION
  [ -x "$out/$1" ] && [ "$(cat "$stamps/$1" 2> /dev/null)" = "$2 r$recipe" ]
}

build() { # PROGRAM VERSION EXPECTED PACKAGE [go build argument…]: in the module of the current folder
  local program=$1 version=$2 expected=$3 package=$4 begin=$SECONDS
  shift 4
  if is_there "$program" "$version"; then return; fi
  echo "· $program $version (expected $expected on two cores)"
  CGO_ENABLED="${CGO_ENABLED:-0}" go build -trimpath "$@" -o "$work/new-$program" "$package"
  mv "$work/new-$program" "$out/$program"
  echo "$version r$recipe" > "$stamps/$program"
  echo "✓ $program $((SECONDS - begin)) s"
}

module() { # NAME PACKAGE@VERSION…: enters a throw-away module that records those programs as tools
  mkdir -p "$work/$1"
  cd "$work/$1"
  printf 'module example.org/%s\n\ngo 1.26.0\n' "$1" > go.mod
  shift
  go get -tool "$@" 2> "$work/get.log" || { cat "$work/get.log" >&2; return 1; }
}

single() { # PROGRAM VERSION EXPECTED PACKAGE: a program of a module of its own
  if is_there "$1" "$2"; then return; fi
  module "$1" "$4@$2"
  build "$1" "$2" "$3" "$4" -ldflags '-s -w'
}

enter_kubernetes() { # k8s.io/kubernetes requires its staging modules at v0.0.0: take the published ones
  local source
  mkdir "$work/k8s"
  cd "$work/k8s"
  source=$(cd "$work" && go mod download -json "k8s.io/kubernetes@v$k8s" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  {
    printf 'module example.org/k8s\n\ngo 1.26.0\n\ngodebug default=go1.26\n\ntool (\n'
    printf '\tk8s.io/kubernetes/cmd/%s\n' "${!kubernetes[@]}"
    printf ')\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$k8s"
    awk '/^\t?(require )?k8s\.io\/.* v0\.0\.0$/ {print $(NF-1)}' "$source/go.mod" | sort -u |
      while read -r m; do printf '\t%s => %s v0.%s\n' "$m" "$m" "${k8s#1.}"; done
    printf ')\n'
  } > go.mod
  go mod tidy 2> "$work/get.log" || { cat "$work/get.log" >&2; return 1; }
}

declare -A kubernetes=(
  [kube-apiserver]='6 min' [kube-controller-manager]='2.5 min' [kube-scheduler]='30 s' [kube-proxy]='15 s'
  [kubelet]='40 s' [kubeadm]='20 s' [kubectl]='20 s'
)
build_kubernetes() {
  local program missing=() flags version=k8s.io/component-base/version
  for program in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl; do
    is_there "$program" "v$k8s" || missing+=("$program")
  done
  if [ ${#missing[@]} = 0 ]; then return; fi
  enter_kubernetes
  flags="-s -w -X $version.gitVersion=v$k8s -X $version.gitMajor=1 -X $version.gitMinor=37"
  flags+=" -X $version.gitTreeState=clean -X $version.gitCommit=$(printf '0%.0s' {1..40})"
  flags+=" -X $version.buildDate=2026-01-01T00:00:00Z"
  for program in "${missing[@]}"; do
    build "$program" "v$k8s" "${kubernetes[$program]}" "k8s.io/kubernetes/cmd/$program" -ldflags "$flags"
  done
}

build_containerd() {
  local commands=github.com/containerd/containerd/v2/cmd version=v2.4.2
  if is_there containerd $version && is_there containerd-shim-runc-v2 $version && is_there ctr $version; then
    return
  fi
  module containerd "$commands/containerd@$version" "$commands/containerd-shim-runc-v2@$version" "$commands/ctr@$version"
  CGO_ENABLED=1 build containerd $version '30 s' "$commands/containerd" -ldflags '-s -w' -tags no_btrfs,no_devmapper,no_zfs
  build containerd-shim-runc-v2 $version '5 s' "$commands/containerd-shim-runc-v2" -ldflags '-s -w'
  build ctr $version '5 s' "$commands/ctr" -ldflags '-s -w'
}

if ! command -v go > /dev/null; then
  echo "building the Kubernetes programs needs Go 1.26 or newer: install it and run this again" >&2
  exit 1
fi

# The bare control planes' programs first: the integration tests need no more.
build_kubernetes
single etcd v3.6.16 '1 min' go.etcd.io/etcd/server/v3
single kwok v0.7.0 '2.5 min' sigs.k8s.io/kwok/cmd/kwok
single kind v0.33.0 '10 s' sigs.k8s.io/kind
build_containerd
single crictl v1.37.0 '20 s' sigs.k8s.io/cri-tools/cmd/crictl
single coredns v1.12.4 '2 min' github.com/coredns/coredns
single kube-router v2.1.0 '3 min' github.com/cloudnativelabs/kube-router/v2/cmd/kube-router
single helm v3.22.0 '1.6 min' helm.sh/helm/v3/cmd/helm
echo "all programs are in $out"
