#!/usr/bin/env bash
# Makes a base image for this project's Dockerfiles from Debian packages, for a machine that reaches no
# image registry.
#
# Usage: build-base-image.sh IMAGE PACKAGE…     Needs root, debootstrap and a docker daemon.
#
# A bookworm root file system with python3, python3-venv and the packages named (without what they merely
# recommend), less what no container reads: documentation, translations, headers, test data, caches.
set -euo pipefail
image=${1:?an image name}
shift
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT

debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root" > "$work/log" || {
  tail -20 "$work/log" >&2
  exit 1
}
cp /etc/resolv.conf "$root/etc/resolv.conf"
in_root() { DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@" >> "$work/log" 2>&1 || { tail -20 "$work/log" >&2; return 1; }; }
in_root apt-get install -y --no-install-recommends "$@"
in_root apt-get clean

rm -rf "$root"/usr/share/{doc,man,info,locale,i18n,lintian,bash-completion}/* "$root"/usr/include/* \
  "$root"/var/lib/apt/lists/* "$root"/var/cache/{apt,debconf,ldconfig}/* "$root"/var/log/* "$root"/dev/* \
  "$root"/etc/resolv.conf
# Of PyTorch: its test programs, and the headers and static libraries for building extensions.
rm -rf "$root"/usr/lib/libtorch-test "$root"/usr/lib/python3/dist-packages/{torch/include,torch/test,caffe2,sympy/*/tests}
find "$root/usr/lib" -name '*.a' -delete
# Of what PyTorch's image library links: drivers that are loaded on demand, and data of maps and desktops.
rm -rf "$root"/usr/lib/*-linux-gnu/{dri,mfx,libLLVM-*,libz3.so*,libmfxhw64*,libtesseract*,liblept*} \
  "$root"/usr/share/{proj,gdal,gdcm-3.0,mime,X11,fonts,icons,xml}
find "$root" -xdev \( -name __pycache__ -o -path '*/numpy/*/tests' \) -prune -exec rm -rf {} +
tar -C "$root" -c . | docker import --change 'ENV PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin' --change 'CMD ["python3"]' - "$image" > /dev/null
