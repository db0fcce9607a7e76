#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the distribution when it must be: when there is none, when a source is newer than it, new or gone, or when the
# JDK it was built with is gone. Silent unless it builds or fails.
set -u

root=$(cd "$(dirname "$0")/.." && pwd -P)
sources=$root/dist/sources

is_current()
{
	[ -f "$sources" ] && [ -x "$(cat "$root/dist/lib/java-home")/bin/java" ] &&
		[ -z "$("$root/tools/sources.sh" "$sources")" ] &&
		"$root/tools/sources.sh" | cmp -s - "$sources"
}

is_current && exit 0
"$root/tools/setup.sh" build || exit 1

# Of two that find it stale one builds and the other waits.
mkdir -p "$root/.tools" && exec 9>"$root/.tools/build.lock" || exit 1
if ! flock -w 1200 9; then
	echo "shadowverbs: waited 20 minutes for another build of this tree (lock .tools/build.lock)" >&2
	exit 1
fi
is_current && exit 0

# What jobs need, as the AOT caches are made from one, and so that no command has to wait for it later; a machine without it
# can do the rest.
"$root/tools/setup.sh" run || true
JAVA_HOME=$("$root/tools/jdk.sh") || exit 1
# Maven's own libraries use what JDK 25 warns of.
MAVEN_OPTS="${MAVEN_OPTS:-} --sun-misc-unsafe-memory-access=allow --enable-native-access=ALL-UNNAMED"
export JAVA_HOME MAVEN_OPTS
log=$root/.tools/build.log
begun=$root/.tools/build.begun
: >"$begun"
echo "shadowverbs: building" >&2
# The commands are no children of this lock: a daemon started later must not hold it.
if ! (cd "$root" && mvn -B -Dstyle.color=never -Dmaven.test.skip=true package) >"$log" 2>&1 9>&-; then
	grep -E '^\[(ERROR|WARNING)\] .*\.java:|^\[ERROR\] Failed|error:|distribution:' "$log" | head -n 20 >&2
	echo "shadowverbs: the build failed; all of it is in .tools/build.log" >&2
	exit 1
fi
# A source that changed during the build is in the result or not: the next time it will be.
touch -r "$begun" "$sources"
