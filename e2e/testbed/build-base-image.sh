#!/usr/bin/env bash
# Makes a base image from Debian packages, for a machine that reaches no image registry.
#
# Usage: build-base-image.sh DEBIAN IMAGE PACKAGE…     Needs root, debootstrap and a docker daemon.
#
# DEBIAN is an archive of a minimal root file system that all images of the bed begin with: it is made
# where it is missing or older than a month. IMAGE gets the packages named (without what they merely
# recommend), less what no container reads: documentation, translations, headers, test data, caches.
set -euo pipefail
debian=${1:?an archive of a root file system}
image=${2:?an image name}
shift 2
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT
mkdir "$root"
failed() {
  tail -20 "$work/log" >&2
  exit 1
}

(
  flock 9 # several images are made at a time: one of them makes the archive, the others wait
  if [ ! -e "$debian" ] || [ -n "$(find "$debian" -mtime +30)" ]; then
    debootstrap --variant=minbase bookworm "$root" > "$work/log" || failed
    chroot "$root" apt-get clean
    tar -C "$root" -cf "$debian.part" .
    mv "$debian.part" "$debian"
  else
    tar -C "$root" -xf "$debian"
  fi
) 9> "$debian.lock"
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo force-unsafe-io > "$root/etc/dpkg/dpkg.cfg.d/fast" # what is cut off is made anew
in_root() { DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@" >> "$work/log" 2>&1 || failed; }
in_root apt-get update
# Not every module of every package is compiled: below, what is imported.
in_root dpkg-divert --local --rename --add /usr/bin/py3compile
ln -s /bin/true "$root/usr/bin/py3compile"
in_root apt-get install -y --no-install-recommends "$@"
rm "$root/usr/bin/py3compile"
in_root dpkg-divert --local --rename --remove /usr/bin/py3compile
in_root apt-get clean
# Compiled once here what a trainer imports, or each of them does so when it starts.
if [ -d "$root/usr/lib/python3/dist-packages/torch" ]; then in_root python3 -c 'import torch, torch.distributed'; fi

rm -rf "$root"/usr/share/{doc,man,info,locale,i18n,lintian,bash-completion}/* "$root"/usr/include/* \
  "$root"/var/lib/apt/lists/* "$root"/var/cache/{apt,debconf,ldconfig}/* "$root"/var/log/* "$root"/dev/* \
  "$root"/etc/resolv.conf "$root"/etc/dpkg/dpkg.cfg.d/fast
# Of PyTorch: its test programs, and the headers and static libraries for building extensions.
rm -rf "$root"/usr/lib/libtorch-test "$root"/usr/lib/python3/dist-packages/{torch/include,torch/test,caffe2,sympy/*/tests}
find "$root/usr/lib" -name '*.a' -delete
# Of what PyTorch's image library links: drivers that are loaded on demand, and data of maps and desktops.
rm -rf "$root"/usr/lib/*-linux-gnu/{dri,mfx,libLLVM-*,libz3.so*,libmfxhw64*,libtesseract*,liblept*} \
  "$root"/usr/share/{proj,gdal,gdcm-3.0,mime,X11,fonts,icons,xml}
rm -rf "$root"/usr/lib/python3/dist-packages/numpy/{,*/,*/*/}tests
tar -C "$root" -c . | docker import --change 'ENV PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin' --change 'CMD ["python3"]' - "$image" > /dev/null
