#!/bin/sh
# install.sh            put edge-infer on this machine, or another version in its place; needs no network
# install.sh uninstall  take the program away; the configuration and what was inspected stay
#
# For distributions with systemd 252 or newer; on Debian the package does the same. PYTHON=python3.11 where python3 is another.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
TOP=/opt/edge-infer
CONFIGURATION=/etc/edge-infer/edge-infer.yaml
UNIT=/etc/systemd/system/edge-infer.service
USERS=/etc/sysusers.d/edge-infer.conf
COMMAND=/usr/local/bin/edge-infer
MANUAL=/usr/local/share/man/man8/edge-infer.8

die() {
	echo "install.sh: $*" >&2
	exit 1
}
running_systemd() {
	[ -d /run/systemd/system ]
}
# inactive, active, failed …; a machine without a service says inactive
state() {
	if running_systemd; then systemctl show --property=ActiveState --value edge-infer.service; else echo inactive; fi
}

[ "$(id -u)" = 0 ] || die "must be run by root: sudo $0"
[ ! -e /var/lib/dpkg/info/edge-infer.list ] || [ ! -e /lib/systemd/system/edge-infer.service ] ||
	die "edge-infer is installed as a Debian package here: use that, or \`dpkg --purge edge-infer\` first (it leaves the configuration)"
# a package that was removed leaves it so
[ ! -L "$UNIT" ] || die "edge-infer.service is masked: systemctl unmask edge-infer"

case "${1:-install}" in
install) ;;
uninstall)
	if running_systemd; then
		systemctl disable --now edge-infer.service 2>/dev/null || true
	fi
	rm -rf "$TOP" "$UNIT" "$USERS" "$COMMAND" "$MANUAL"
	if running_systemd; then
		systemctl daemon-reload
	fi
	echo "edge-infer is gone; its user stays, and /etc/edge-infer, /var/lib/edge-infer, /var/log/edge-infer, /var/cache/edge-infer"
	exit 0
	;;
*) die "unknown: $1 (nothing, or uninstall)" ;;
esac

python=$(command -v "${PYTHON:-python3}") || die "there is no ${PYTHON:-python3}; PYTHON=/path/to/python names another"
wanted=$(cat "$here/runs-on")
has=$("$python" -c 'import platform, sys; print("python3.%d-%s" % (sys.version_info.minor, platform.machine()))')
[ "$has" = "$wanted" ] || die "this archive is for $wanted, $python is $has; PYTHON=/path/to/python names another"
(cd "$here" && sha256sum --check --quiet SHA256SUMS) || die "files are damaged or missing: copy the archive again"

# made beside the one that runs; that it is whole is seen before anything is changed
new=$TOP/venv.new
rm -rf "$new"
trap 'rm -rf "$new"' EXIT
mkdir -p "$TOP"
umask 022
"$python" -m venv --without-pip "$new"
pip=$(echo "$here"/wheels/pip-*.whl)
"$new/bin/python" "$pip/pip" install --quiet --disable-pip-version-check --no-cache-dir --root-user-action=ignore \
	--no-index --find-links "$here/wheels" --no-compile 'edge-infer[gpio]'
version=$("$new/bin/python" -IBm edge_infer --version)
"$python" -I "$here/settle.py" "$new" "$(readlink -f "$python")"
"$python" -I -m compileall -q --invalidation-mode checked-hash -s "$new" -p "$TOP/venv" "$new/lib"

# never some files of one version and some of another under a service that runs
before=$(state)
if running_systemd && [ -e "$UNIT" ]; then
	systemctl stop edge-infer.service
fi
rm -rf "$TOP/venv"
mv "$new" "$TOP/venv"
for folder in docs examples drop-ins licences; do
	rm -rf "${TOP:?}/$folder"
	cp -r "$here/$folder" "$TOP/$folder"
done
cp "$here/README.md" "$here/LICENSE" "$here/CHANGELOG.md" "$here/third-party.md" "$here/install.sh" "$TOP"
ln -sfn "$(cd "$TOP" && echo venv/lib/python3.*/site-packages/edge_infer/bundled)" "$TOP/models"
mkdir -p /etc/edge-infer "${UNIT%/*}" "${USERS%/*}" "${COMMAND%/*}" "${MANUAL%/*}"
first=no
[ -e "$UNIT" ] || first=yes
cp "$here/edge-infer.service" "$UNIT"
cp "$here/edge-infer.conf" "$USERS"
cp "$here/edge-infer.8" "$MANUAL"
ln -sf "$TOP/venv/bin/edge-infer" "$COMMAND"
systemd-sysusers "$USERS"

if running_systemd; then
	systemctl daemon-reload
	if [ "$first" = yes ]; then
		systemctl enable --quiet edge-infer.service
	fi
	if [ ! -e "$CONFIGURATION" ]; then
		echo "not started, as there is no $CONFIGURATION yet; examples: $TOP/examples"
	elif [ "$first" = yes ] || [ "$before" != inactive ]; then
		echo "starting; models are compiled anew, that may take minutes"
		systemctl reset-failed edge-infer.service 2>/dev/null || true
		systemctl start edge-infer.service || echo "installed, but the service did not start; why: systemctl status edge-infer"
	fi
fi
echo "$version is installed"
