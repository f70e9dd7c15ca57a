#!/bin/sh
# build.sh FOLDER: Debian's kernel, and an initramfs that loads its test camera and boots into this machine's files.
# Downloads the kernel's package (70 MB) and unpacks it; nothing is installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
rm -rf deb tree root

package=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p' | head -n 1)
[ -n "$package" ] || { echo "apt knows no linux-image-amd64; run apt-get update" >&2; exit 1; }
mkdir deb tree
(cd deb && apt-get -qq download "$package")
dpkg-deb --fsys-tarfile deb/*.deb | tar -x -C tree ./boot ./lib/modules
version=$(basename tree/lib/modules/*)
cp "tree/boot/vmlinuz-$version" vmlinuz
depmod -b "$PWD/tree" "$version"

mkdir -p root/bin root/modules root/proc root/sys root/dev root/host
cp /bin/busybox root/bin/busybox
cp "$here/init" root/init
chmod +x root/init
for module in virtio_pci 9pnet_virtio 9p vivid; do
    modprobe -d "$PWD/tree" -S "$version" --show-depends "$module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r file; do
    name=$(basename "$file")
    case "$name" in
        *.xz) name=${name%.xz} && xz -dc "$file" >"root/modules/$name" ;;
        *) cp "$file" "root/modules/$name" ;;
    esac
    echo "$name"
done >order
mv order root/modules/order
(cd root && find . | cpio --quiet -o -H newc | gzip -1) >initramfs
rm -rf deb tree root
