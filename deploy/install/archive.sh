#!/bin/sh
# archive.sh PYTHON WHEELS FOLDER: FOLDER/edge-infer-VERSION-PYTHON-PROCESSOR.tar, for machines that are not Debian's: the
# wheels that wheels.sh made, and an installer that needs no network.
set -eu
python=$1
wheels=$2
folder=$3
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$top/edge_infer/__init__.py")
runs_on=$("$python" -c 'import platform, sys; print("python3.%d-%s" % (sys.version_info.minor, platform.machine()))')
name=edge-infer-$version-$runs_on
in=$stage/$name
mkdir -p "$in/wheels" "$in/examples" "$in/licences" "$folder"

cp "$wheels"/*.whl "$in/wheels"
cp "$here/install.sh" "$here/settle.py" "$here/edge-infer.8" "$top/systemd/edge-infer.service" "$top/systemd/sysusers.d/edge-infer.conf" \
	"$top/LICENSE" "$top/CHANGELOG.md" "$in"
cp "$top/deploy/README.md" "$in/README.md"
cp -r "$top/docs" "$in/docs"
cp -r "$top/systemd/drop-ins" "$in/drop-ins"
for example in "$top"/deploy/*.yaml; do
	sed 's,\.\./models/,/opt/edge-infer/models/,' "$example" >"$in/examples/${example##*/}"
done
echo "$runs_on" >"$in/runs-on"
"$python" -I "$here/licences.py" "$in" "$in"/wheels/*.whl
(cd "$in" && find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum) >"$stage/SHA256SUMS"
mv "$stage/SHA256SUMS" "$in/SHA256SUMS"
# wheels are compressed already
tar -C "$stage" --owner=0 --group=0 --sort=name -cf "$folder/$name.tar" "$name"
