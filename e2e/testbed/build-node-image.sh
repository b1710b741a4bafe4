#!/usr/bin/env bash
# Builds a node image for kind without an image registry: a Debian root file system, the programs of
# build-programs.sh, and kind's own base files, read from its Go module.     About 2.5 minutes.
#
# Usage: build-node-image.sh PROGRAMS IMAGE
# Needs root, debootstrap, jq, gcc, nft, conntrack, go and a docker daemon.
set -euo pipefail
bin=$(realpath "${1:?the folder of programs}")
image=${2:?an image name}
k8s=v1.37.2
kind=v0.33.0
etcd=3.7.0-0 coredns=v1.14.6 pause=3.10 # the tags that kubeadm and kind ask for
work=$(mktemp -d)
root=$work/root
builder=node-image-build-$$
trap 'rm -rf "$work"; docker rm -f "$builder" > /dev/null 2>&1 || true' EXIT

packages=systemd,systemd-sysv,dbus,conntrack,iptables,ipset,nftables,iproute2,ethtool,util-linux,mount,kmod
packages+=,libseccomp2,pigz,e2fsprogs,bash,ca-certificates,curl,jq,procps,runc,containernetworking-plugins
packages+=,socat,iputils-ping,netbase
debootstrap --variant=minbase --include="$packages" bookworm "$root" > "$work/debootstrap.log" || {
  tail -20 "$work/debootstrap.log" >&2
  exit 1
}
files=$(cd "$work" && go mod download -json "sigs.k8s.io/kind@$kind" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/images/base/files
cp -r --no-preserve=mode "$files"/. "$root"/
chmod 755 "$root"/usr/local/bin/* "$root"/kind/bin/*
install -m755 "$bin"/{containerd,containerd-shim-runc-v2,ctr,crictl} "$root/usr/local/bin/"
install -m755 "$bin"/{kubelet,kubeadm,kubectl} "$root/usr/bin/"
mkdir -p "$root"/{opt/cni/bin,etc/cni/net.d,etc/kubernetes/manifests,kind/manifests}
cp "$root"/usr/lib/cni/{ptp,host-local,loopback,portmap} "$root/opt/cni/bin/"
echo "$k8s" > "$root/kind/version"
"$bin/ctr" oci spec |
  jq '(.hooks.createContainer += [{"path":"/kind/bin/mount-product-files.sh"}]) | del(.process.rlimits)' \
    > "$root/etc/containerd/cri-base.json"
# Without CAP_SYS_RESOURCE no process may raise its limits or lower its OOM score.
sed -i '/^Limit/d; /^OOMScoreAdjust/d' "$root/etc/systemd/system/containerd.service"
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$root/etc/containerd/config.toml"
# Only the units that a node needs.
rm -f "$root"/lib/systemd/system/{multi-user,local-fs,basic}.target.wants/* \
  "$root"/etc/systemd/system/*.wants/* \
  "$root"/lib/systemd/system/sockets.target.wants/*{udev,initctl}* \
  "$root"/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service
for unit in kubelet containerd undo-mount-hacks; do
  ln -sf "/etc/systemd/system/$unit.service" "$root/etc/systemd/system/multi-user.target.wants/$unit.service"
done
ln -sf /dev/null "$root/etc/systemd/system/systemd-binfmt.service"
echo ReadKMsg=no >> "$root/etc/systemd/journald.conf"
printf 'apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: standard}\nprovisioner: kubernetes.io/no-provisioner\n' \
  > "$root/kind/manifests/default-storage.yaml"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*

static_image() { # REFERENCE PROGRAM…: an image of those programs and the libraries they need; the first is its entry
  local reference=$1 folder program
  shift
  folder=$(mktemp -d -p "$work")
  mkdir -p "$folder"/{usr/local/bin,etc,tmp}
  chmod 1777 "$folder/tmp"
  # Without the protocols' names nft lists numbers, and kube-proxy, which knows its elements by name,
  # then deletes all of them at its hourly full sync.
  cp "$root/etc/protocols" "$folder/etc/"
  for program in "$@"; do
    cp "$program" "$folder/usr/local/bin/"
    { ldd "$program" 2> /dev/null || true; } | { grep -o '/[^ ]*' || true; } |
      while read -r library; do install -D "$library" "$folder$library"; done
  done
  tar -C "$folder" -c . |
    docker import --change "ENTRYPOINT [\"/usr/local/bin/$(basename "$1")\"]" \
      --change 'ENV PATH=/usr/local/bin' - "$reference" > /dev/null
  echo "$reference" >> "$work/references"
}
cat > "$work/pause.c" <<'C'
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void stop(int s) { (void)s; _exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, NULL, WNOHANG) > 0); }
int main(void) { signal(SIGINT, stop); signal(SIGTERM, stop); signal(SIGCHLD, reap); for (;;) pause(); }
C
gcc -O2 -static -o "$work/pause" "$work/pause.c"
for program in kube-apiserver kube-controller-manager kube-scheduler; do
  static_image "registry.k8s.io/$program:$k8s" "$bin/$program"
done
static_image "registry.k8s.io/kube-proxy:$k8s" "$bin/kube-proxy" "$(command -v nft)" "$(command -v conntrack)"
static_image "registry.k8s.io/etcd:$etcd" "$bin/etcd"
static_image "registry.k8s.io/coredns/coredns:$coredns" "$bin/coredns"
static_image "registry.k8s.io/pause:$pause" "$work/pause"
mapfile -t references < "$work/references"
docker save -o "$work/images.tar" "${references[@]}"
docker image rm "${references[@]}" > /dev/null

tar -C "$root" -c . | docker import --change 'ENV container=docker' - "$image-base" > /dev/null
docker run -d --privileged --name "$builder" --entrypoint sleep "$image-base" infinity > /dev/null
docker exec -d "$builder" containerd
for _ in $(seq 60); do
  docker exec "$builder" ctr version > /dev/null 2>&1 && break
  sleep 1
done
docker exec -i "$builder" ctr -n k8s.io images import --all-platforms --no-unpack --digests - < "$work/images.tar" > /dev/null
docker exec "$builder" pkill containerd || true
docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]' "$builder" "$image" > /dev/null
docker rm -f "$builder" > /dev/null
docker image rm "$image-base" > /dev/null 2>&1 || true # its layer stays as the lower one of IMAGE
