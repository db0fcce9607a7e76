#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: JEXTRACT=/path/to/jextract verbs-bindings/generate.sh
#
# Makes the bindings anew: org.shadowverbs.bindings.verbs from the system's infiniband/verbs.h and
# org.shadowverbs.bindings.abi from native/include/shadowverbs.h, and org.shadowverbs.bindings.tcp from
# native/include/shadowverbs_tcp.h. To be run when one of the headers has changed; the
# result is committed. Needs a jextract built with libclang 14: what newer ones make of verbs.h does not compile.
set -eu

cd "$(dirname "$0")"
: "${JEXTRACT:?name the jextract tool in JEXTRACT}"
sources=src/main/java
verbs=org.shadowverbs.bindings.verbs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What jextract cannot express and nobody calls: reported by it at each run.
run_jextract()
{
	"$JEXTRACT" "$@" 2>"$work/messages" || { cat "$work/messages" >&2; exit 1; }
	grep -v 'warning: Skipping \(sigevent\|__clang_max_align_nonce2\|_compat_ibv_port_attr\|sv_keymap\|sv_idmap\|sv_routes\) ' \
		"$work/messages" >&2 || true
}

# $1: package, $2: includes, $3: library, $4...: header and its options
bind()
{
	package=$1 includes=$2 library=$3
	shift 3
	run_jextract --output "$work/java" --target-package "$package" --library ":$library" "@$includes" "$@"
	folder=$(echo "$package" | tr . /)
	rm -rf "${sources:?}/$folder"
	# The library is opened when a function is looked up, not when a constant or a layout is: those are of use, in tests
	# for one, where the library is not.
	sed -i 's/SymbolLookup\.libraryLookup("[^"]*", LIBRARY_ARENA)/((SymbolLookup) name -> &.find(name))/' \
		"$work/java/$folder"/*_h.java
	# The structs of verbs.h that our own headers hold by value are those of the first package.
	if [ "$package" != "$verbs" ]; then
		for file in "$work/java/$folder"/*.java; do
			[ ! -e "$sources/$(echo "$verbs" | tr . /)/${file##*/}" ] || rm "$file"
		done
		sed -i "s/^package $package;\$/&\n\nimport $verbs.*;/" "$work/java/$folder"/*.java
	fi
	# The handle of an array's elements takes ten milliseconds to make: it is made when an element is first asked for, not when
	# the class of the struct is. Pointers take no handle at all.
	sed -i -e 's/^    private static final VarHandle \(.*\)\$ELEM_HANDLE = \(.*\);$/    private static final class \1$Element {\n        static final VarHandle HANDLE = \2;\n    }/' \
		-e 's/\$ELEM_HANDLE\./$Element.HANDLE./' \
		-e '/^ *public static MemorySegment /{n;s/return \(struct\|union\)\.get([^,]*\$LAYOUT, /return Pointer.get(\1, /}' \
		-e '/, MemorySegment fieldValue) {$/{n;s/\(struct\|union\)\.set([^,]*\$LAYOUT, /Pointer.set(\1, /}' \
		"$work/java/$folder"/*.java
	grep -l 'Pointer\.[gs]et(' "$work/java/$folder"/*.java |
		xargs -r sed -i "s/^package $package;\$/&\n\nimport org.shadowverbs.bindings.Pointer;/"
	mkdir -p "$sources/$folder"
	mv "$work/java/$folder"/*.java "$sources/$folder"
}

# $1: one of our own headers, $2: includes. Everything that the header defines; what is left out is opaque.
list_own()
{
	run_jextract --dump-includes "$work/all.includes" -I ../native/include "../native/include/$1.h"
	sed -n "s|^\\(--include-[a-z]* [^ ]*\\) *# header: .*/native/include/$1.h\$|\\1|p" "$work/all.includes" |
		grep -v -w 'SHADOWVERBS_H\|SHADOWVERBS_TCP_H\|struct sv_keymap\|struct sv_idmap\|struct sv_routes' | LC_ALL=C sort >"$2"
}

list_own shadowverbs shadowverbs.includes
# The one struct of verbs.h that it holds by value.
echo "--include-struct ibv_qp_cap" >>shadowverbs.includes
LC_ALL=C sort -o shadowverbs.includes shadowverbs.includes
list_own shadowverbs_tcp shadowverbs_tcp.includes
# Of a struct and a function with one name the list has either.
sed -i 's/^--include-function sv_tcp_doorbell$/--include-struct sv_tcp_doorbell/' shadowverbs_tcp.includes
LC_ALL=C sort -o shadowverbs_tcp.includes shadowverbs_tcp.includes
grep -w 'struct ibv_\(cq\|cq_ex\|wc\|qp\|srq\|ah\|dm\)\|.*pthread_.*\|.*__atomic_wide_counter' verbs.includes >>shadowverbs_tcp.includes

bind $verbs verbs.includes libibverbs.so.1 /usr/include/infiniband/verbs.h
bind org.shadowverbs.bindings.abi shadowverbs.includes libshadowverbs.so -I ../native/include \
	../native/include/shadowverbs.h
bind org.shadowverbs.bindings.tcp shadowverbs_tcp.includes libshadowverbs.so -I ../native/include \
	../native/include/shadowverbs_tcp.h
