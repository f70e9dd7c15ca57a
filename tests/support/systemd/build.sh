#!/bin/sh
# build.sh FOLDER: a small Debian 12 with systemd, in which the tests install and run the service. Downloads 60 MB; needs root.
set -eu
rm -rf "$1"
# systemd-sysv: the tests end the machine with its poweroff; libaravis: the tests' industrial camera
exec mmdebstrap --quiet --variant=minbase \
    --include=systemd,systemd-sysv,dbus,udev,procps,iproute2,python3,libglib2.0-0,libaravis-0.8-0 bookworm "$1"
