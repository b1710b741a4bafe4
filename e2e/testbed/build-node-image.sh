#!/usr/bin/env bash
# Builds a node image for kind without an image registry, from a root file system made of Debian
# packages (build-base-image.sh), the programs, and kind's own base files.      About a minute.
#
# Usage: build-node-image.sh ROOT PROGRAMS FILES KUBERNETES IMAGE
#   ROOT        an image with systemd and what a node runs
#   PROGRAMS    the folder of the Kubernetes programs
#   FILES       kind's images/base/files
#   KUBERNETES  their version, with its v
# Needs a docker daemon that may run privileged containers.
set -euo pipefail
root=${1:?an image}
bin=$(realpath "${2:?the folder of programs}")
files=${3:?the folder of files of kind}
k8s=${4:?a version}
image=${5:?an image name}
etcd=3.7.0-0 coredns=v1.14.6 pause=3.10 # the tags that kubeadm and kind ask for
work=$(mktemp -d)
stage=$work/stage
builder=node-image-build-$$
trap 'rm -rf "$work"; docker rm -f "$builder" > /dev/null 2>&1 || true' EXIT

mkdir -p "$stage"/{usr/local/bin,usr/bin,kind/manifests}
cp -r --no-preserve=mode "$files"/. "$stage"/
chmod 755 "$stage"/usr/local/bin/* "$stage"/kind/bin/*
install -m755 "$bin"/{containerd,containerd-shim-runc-v2,ctr} "$stage/usr/local/bin/"
install -m755 "$bin"/{kubelet,kubeadm,kubectl} "$stage/usr/bin/"
echo "$k8s" > "$stage/kind/version"
# Without CAP_SYS_RESOURCE no process may raise its limits or lower its OOM score.
sed -i '/^Limit/d; /^OOMScoreAdjust/d' "$stage/etc/systemd/system/containerd.service"
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$stage/etc/containerd/config.toml"
printf 'apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: standard}\nprovisioner: kubernetes.io/no-provisioner\n' \
  > "$stage/kind/manifests/default-storage.yaml"

docker run -d --privileged --name "$builder" --entrypoint sh "$root" -c "echo > /$builder; exec sleep infinity" > /dev/null
# In a plain chroot docker exec does not enter containers: what follows would be written to this machine.
for _ in $(seq 20); do
  docker exec "$builder" test -e "/$builder" && break
  sleep 0.5
done
docker exec "$builder" rm "/$builder" || {
  echo "docker exec does not enter containers here" >&2
  exit 1
}
tar -C "$stage" -c . | docker exec -i "$builder" tar -C / -x --no-same-owner --keep-directory-symlink
docker exec -i "$builder" bash -euo pipefail -s <<'SETUP'
mkdir -p /opt/cni/bin /etc/cni/net.d /etc/kubernetes/manifests
cp /usr/lib/cni/{ptp,host-local,loopback,portmap} /opt/cni/bin/
ctr oci spec |
  jq '(.hooks.createContainer += [{"path":"/kind/bin/mount-product-files.sh"}]) | del(.process.rlimits)' \
    > /etc/containerd/cri-base.json
# Only the units that a node needs.
rm -f /lib/systemd/system/{multi-user,local-fs,basic}.target.wants/* /etc/systemd/system/*.wants/* \
  /lib/systemd/system/sockets.target.wants/*{udev,initctl}* \
  /lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service
mkdir -p /etc/systemd/system/multi-user.target.wants
for unit in kubelet containerd undo-mount-hacks; do
  ln -sf "/etc/systemd/system/$unit.service" "/etc/systemd/system/multi-user.target.wants/$unit.service"
done
ln -sf /dev/null /etc/systemd/system/systemd-binfmt.service
echo ReadKMsg=no >> /etc/systemd/journald.conf
SETUP

static_image() { # REFERENCE PROGRAM [PATH…]: an image of a program, and of programs of the node with their libraries
  local reference=$1 program=$2 folder
  shift 2
  folder=$(mktemp -d -p "$work")
  mkdir -p "$folder"/{usr/local/bin,etc,tmp}
  chmod 1777 "$folder/tmp"
  cp "$bin/$program" "$folder/usr/local/bin/"
  if [ $# -gt 0 ]; then
    # Without the protocols' names nft lists numbers, and kube-proxy, which knows its elements by name,
    # then deletes all of them at its hourly full sync.
    docker exec "$builder" bash -euo pipefail -c 'for p; do echo "$p"; ldd "$p" | grep -o "/[^ ]*"; done | sort -u |
      tar -chPf - /etc/protocols -T -' - "$@" | tar -C "$folder" -x
  fi
  tar -C "$folder" -c . |
    docker import --change "ENTRYPOINT [\"/usr/local/bin/$program\"]" \
      --change 'ENV PATH=/usr/local/bin:/usr/sbin' - "$reference" > /dev/null
  echo "$reference" >> "$work/references"
}
for program in kube-apiserver kube-controller-manager kube-scheduler; do
  static_image "registry.k8s.io/$program:$k8s" "$program"
done
static_image "registry.k8s.io/kube-proxy:$k8s" kube-proxy /usr/sbin/nft /usr/sbin/conntrack
static_image "registry.k8s.io/etcd:$etcd" etcd
static_image "registry.k8s.io/coredns/coredns:$coredns" coredns
static_image "registry.k8s.io/pause:$pause" pause
mapfile -t references < "$work/references"

docker exec -d "$builder" containerd
for _ in $(seq 60); do
  docker exec "$builder" ctr version > /dev/null 2>&1 && break
  sleep 1
done
docker save "${references[@]}" |
  docker exec -i "$builder" ctr -n k8s.io images import --all-platforms --no-unpack --digests - > /dev/null
docker image rm "${references[@]}" > /dev/null
docker exec "$builder" pkill containerd || true
docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]' --change 'ENV container=docker' \
  --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' --change 'CMD []' \
  "$builder" "$image" > /dev/null
