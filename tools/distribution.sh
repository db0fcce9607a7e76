#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: tools/distribution.sh JARS DIST JAVA_HOME
#
# Assembles the distribution from what has been built; part of the Maven build, which has put the jars into JARS.
# README.md beside this file says what is where. It is made beside the old one and renamed into its place: programs that
# run from that one keep their files.
set -eu

jars=$1 dist=$2 java_home=$3
tools=$(cd "$(dirname "$0")" && pwd -P)
root=$(dirname "$tools")
new=$dist.new
trap 'rm -rf "$new"' EXIT

# $1: file, $2: where to. What is not built yet is left out, so that a part can be worked on without the others.
put()
{
	if [ -e "$1" ]; then
		mkdir -p "$(dirname "$2")"
		cp -p "$1" "$2"
	else
		echo "distribution: ${1#"$root"/} is missing" >&2
	fi
}

rm -rf "$new"
mkdir -p "$new/bin" "$new/lib"
cp -p "$jars"/*.jar "$new/lib"
# Of a format that an AOT cache takes. Without it every command starts slower and works the same.
if "$java_home/bin/java" "$tools/NewerClasses.java" "$jars/picocli.jar" "$new/newer.jar"; then
	mv "$new/newer.jar" "$new/lib/picocli.jar"
else
	echo "distribution: picocli's classes can't be cached" >&2
	rm -f "$new/newer.jar"
fi
# $1: jar, $2: the library's folder in it, $3: what the library's name begins with. Puts it where the JVM looks first: else each
# JVM unpacks it for itself, into the folder for temporary files, where one that is killed leaves it.
unpack()
{
	local library
	library=$("$java_home/bin/jar" --list --file "$new/lib/$1" | grep -x "$2/$3[^/]*\.so") &&
		(cd "$new" && "$java_home/bin/jar" --extract --file "lib/$1" "$library") || return 1
	mv "$new/$library" "$new/lib/${library##*/}"
	rm -r "${new:?}/${2%%/*}"
}

machine=$(uname -m | sed 's/^x86_64$/amd64/')
unpack lz4-java.jar "net/jpountz/util/linux/$machine" liblz4-java ||
	echo "distribution: lz4-java has no library for $(uname -m): it compresses in Java" >&2
unpack zstd-jni.jar "linux/$machine" libzstd-jni ||
	echo "distribution: zstd-jni has no library for $(uname -m) in linux/$machine: each process looks for one itself" >&2
# The next build copies them again; a jar that is no longer needed must not stay.
rm -rf "$jars"

put "$root/test-fabric/target/test-fabric.jar" "$new/lib/test-fabric.jar"
put "$root/native/build/libshadowverbs.so" "$new/lib/libshadowverbs.so"
put "$root/native/restore-init/target/shadowverbs-restore-init" "$new/bin/shadowverbs-restore-init"
put "$root/native/restore-init/target/shadowverbs-job-root" "$new/bin/shadowverbs-job-root"
put "$root/native/restore-init/target/shadowverbs-tcp-hold" "$new/bin/shadowverbs-tcp-hold"
put "$root/native/restore-init/target/shadowverbs-rsh" "$new/bin/shadowverbs-rsh"
put "$root/native/restore-init/target/shadowverbs-rshd" "$new/bin/shadowverbs-rshd"
put "$root/native/restore-init/target/shadowverbs-tcp-release" "$new/bin/shadowverbs-tcp-release"
put "$root/native/restore-init/target/libshadowverbs-criu.so" "$new/lib/libshadowverbs-criu.so"
put "$root/native/restore-init/target/criu-plugins/shadowverbs-devices.so" "$new/lib/criu-plugins/shadowverbs-devices.so"
for library in libshadowverbs-program.a libshadowverbs-program.so; do
	put "$root/native/program/build/$library" "$new/lib/$library"
done
put "$root/native/program/include/shadowverbs_program.h" "$new/include/shadowverbs_program.h"
put "$root/native/program/shadowverbs.f90" "$new/include/shadowverbs.f90"
put "$root/test-fabric/hca/build/lib/libibverbs.so.1" "$new/fabric/libibverbs.so.1"
for program in "$root"/test-fabric/hca/build/bin/* "$root"/test-fabric/programs/build/* \
	"$root"/test-fabric/*/target/bin/*; do
	if [ -f "$program" ] && [ -x "$program" ]; then
		put "$program" "$new/programs/${program##*/}"
	fi
done
put "$tools/launcher.sh" "$new/bin/shadowverbs"
put "$root/docs/job.sbatch" "$new/share/job.sbatch"
echo "$java_home" >"$new/lib/java-home"

# The rank's class path has what a rank needs and no more: neither Jackson nor Chronicle Map.
rank_classes=
for jar in shadow-driver ib2tcp verbs-bindings id-translation pubsub-coordinator; do
	rank_classes=$rank_classes${rank_classes:+:}$dist/lib/$jar.jar
done
{
	echo "-Djava.class.path=$rank_classes"
	cat "$tools/rank.options"
} >"$new/lib/rank.options"
# A class that every JVM with a store would compile for itself. Without it they start slower and work the same.
made=$(mktemp -d)
if "$java_home/bin/java" -cp "$new/lib/*" $(grep -v -e '^-X' "$tools/service.options") "$tools/StoreClass.java" "$made" >"$made/log" 2>&1
then
	"$java_home/bin/jar" --create --file "$new/lib/store-class.jar" -C "$made" net
else
	echo "distribution: the store's class could not be made: $(grep -v '^WARNING' "$made/log" | head -n 1)" >&2
fi
rm -rf "$made"
# Manual pages and the completion of the shell.
"$java_home/bin/java" -cp "$new/lib/*" org.shadowverbs.coordinator.cli.Manual "$new/share"
all_classes=
for jar in "$new"/lib/*.jar; do
	all_classes=$all_classes${all_classes:+:}$dist/lib/${jar##*/}
done
for kind in command service; do
	{
		echo "-Djava.class.path=$all_classes"
		echo "-Djava.library.path=$dist/lib"
		cat "$tools/$kind.options"
	} >"$new/lib/$kind.options"
done

rm -rf "$dist.old"
[ ! -e "$dist" ] || mv "$dist" "$dist.old"
mv "$new" "$dist"
rm -rf "$dist.old"
"$tools/train.sh" "$dist"
# Last: what has this file is whole.
"$tools/sources.sh" >"$dist/sources"
