#!/bin/sh
# deb.sh PYTHON WHEELS FOLDER: FOLDER/edge-infer_VERSION_ARCHITECTURE.deb of the wheels that wheels.sh made: one package
# with everything in it, for this kind of processor and Debian's Python of PYTHON's minor version.
set -eu
python=$1
wheels=$2
folder=$3
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
chmod 755 "$stage"

# the same sources make the same package
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || stat -c %Y "$top/CHANGELOG.md")}
export SOURCE_DATE_EPOCH
minor=$("$python" -c 'import sys; print(sys.version_info.minor)')
architecture=$(dpkg --print-architecture)
# what Python calls 1.0rc1 is 1.0~rc1 here: before 1.0
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$top/edge_infer/__init__.py" | sed -E 's/\.?(dev|a|b|rc)([0-9])/~\1\2/')

venv=$stage/opt/edge-infer/venv
"$python" -m venv --without-pip "$venv"
"$python" -m pip --python "$venv/bin/python" install --quiet --disable-pip-version-check --no-index --find-links "$wheels" \
	--no-compile 'edge-infer[gpio]'
# from here on it is at home in /opt/edge-infer/venv, on Debian's Python, wherever and with whatever it was made
"$python" -I "$here/settle.py" "$venv" "/usr/bin/python3.$minor"
# Owned by the package, so that nothing is left of it. Valid by their sources' content: times change on the way.
"$python" -I -m compileall -q -j 2 --invalidation-mode checked-hash -s "$stage" -p / "$venv/lib"

put() {
	install -D -m 644 "$@"
}
put "$top/systemd/edge-infer.service" "$stage/lib/systemd/system/edge-infer.service"
put "$top/systemd/sysusers.d/edge-infer.conf" "$stage/usr/lib/sysusers.d/edge-infer.conf"
put -t "$stage/usr/share/edge-infer/drop-ins" "$top"/systemd/drop-ins/*.conf
install -d "$stage/usr/share/edge-infer/examples" "$stage/usr/bin" "$stage/etc/edge-infer"
for example in "$top"/deploy/*.yaml; do
	sed 's,\.\./models/,/opt/edge-infer/models/,' "$example" >"$stage/usr/share/edge-infer/examples/${example##*/}"
done
ln -s "venv/lib/python3.$minor/site-packages/edge_infer/bundled" "$stage/opt/edge-infer/models"
ln -s /opt/edge-infer/venv/bin/edge-infer "$stage/usr/bin/edge-infer"

doc=$stage/usr/share/doc/edge-infer
put -t "$doc" "$top"/docs/*.md
put "$top/README.md" "$doc/README.md"
put "$top/deploy/README.md" "$doc/install.md"
put "$top/LICENSE" "$doc/copyright"
put "$top/CHANGELOG.md" "$doc/changelog"
put "$here/edge-infer.8" "$stage/usr/share/man/man8/edge-infer.8"
gzip -9n "$doc/changelog" "$stage/usr/share/man/man8/edge-infer.8"
"$python" -I "$here/licences.py" "$doc" "$venv/lib/python3.$minor/site-packages"

install -D -m 755 -t "$stage/DEBIAN" "$here/deb/postinst" "$here/deb/prerm" "$here/deb/postrm"
# in KiB, as dpkg counts; du would count folders as this disk has them
size=$(find "$stage" -type f -printf '%s\n' -o -printf '1\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@PYTHON@/3.$minor/; s/@NEXT_PYTHON@/3.$((minor + 1))/" \
	-e "s/@SIZE@/$size/" "$here/deb/control" >"$stage/DEBIAN/control"
# what `dpkg --verify` compares with
(cd "$stage" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$stage/DEBIAN/md5sums"

mkdir -p "$folder"
# unpacked in seconds and 12 % larger than what takes ten times as long to make
dpkg-deb --root-owner-group -Zzstd -z10 --build "$stage" "$folder/edge-infer_${version}_$architecture.deb" >/dev/null
