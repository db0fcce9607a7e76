#!/bin/sh
# Compares the symbols of the library built here, those of src/symbols.h and those of the installed libibverbs.so.1.
# usage: symbols.sh BUILT_LIBRARY
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

installed=$(ldconfig -p | awk '/libibverbs\.so\.1 .*x86-64/ {print $NF; exit}')
if [ -z "$installed" ]; then
	echo "symbols: no libibverbs.so.1 is installed to compare with; install the package libibverbs1" >&2
	exit 1
fi

# Default symbols are written name@@version, old ones name@version; both count.
list() {
	readelf -W --dyn-syms "$1" | awk '$7 != "UND" && $7 != "ABS" && $8 ~ /@IBVERBS/ {print $4, $8}' | LC_ALL=C sort
}
list "$installed" >"$work/installed"
list "$1" >"$work/built"
diff "$work/installed" "$work/built"

sed -n 's/^\tX(\([a-z_A-Z0-9]*\), \([A-Z_0-9.]*\), .*/\1@IBVERBS_\2/p' "$here/../src/symbols.h" |
	LC_ALL=C sort >"$work/table"
sed 's/^[A-Z]* //; s/@@/@/' "$work/installed" | LC_ALL=C sort | diff - "$work/table"
echo "symbols: $(wc -l <"$work/built") symbols, same as $installed"
