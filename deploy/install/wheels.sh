#!/bin/sh
# wheels.sh PYTHON FOLDER: edge-infer and all that it needs as wheels, in the versions that PYTHON's environment has: those
# that the tests ran with. Asks the package index only where these changed.
set -eu
python=$1
folder=$2
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# a copy: what is left of earlier builds and caches must not come along
mkdir "$work/source"
(cd "$top" && tar -c --exclude=__pycache__ edge_infer models setup.cfg pyproject.toml README.md LICENSE) | tar -x -C "$work/source"
"$python" -m pip freeze --exclude-editable | grep == >"$work/versions"
sed -n '/^install_requires/,/^$/p; /^gpio/,/^$/p' "$top/setup.cfg" >>"$work/versions"

wheel() {
	"$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --wheel-dir "$@"
}
if cmp -s "$work/versions" "$folder/versions"; then
	rm -f "$folder"/edge_infer-*.whl
	wheel "$folder" --no-deps "$work/source"
else
	rm -rf "$folder"
	grep == "$work/versions" >"$work/constraints"
	# pip itself for install.sh: many distributions have a Python without it
	wheel "$folder" --constraint "$work/constraints" pip "$work/source[gpio]"
	mv "$work/versions" "$folder/versions"
fi
