#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tools/train.sh DIST
#
# Trains the AOT caches of a distribution in its place: runs what starts often, and names each cache in the options
# file that its JVMs are started with. A JVM without a cache starts slower and works the same, so a cache that can't be
# had is reported and left out.
set -u

dist=$1
java=$(cat "$dist/lib/java-home")/bin/java
main=org.shadowverbs.coordinator.cli.Training
work=$(mktemp -d) || exit 1
coordinator=
cleanup()
{
	[ -z "$coordinator" ] || kill "$coordinator" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
# Whatever this starts must not meet the daemons of the user's jobs.
export SHADOWVERBS_RUN_DIR=$work/run

# $1: kind, $2...: main class and arguments. Runs java as the command does, but so that it writes a cache when it ends.
record()
{
	local kind=$1
	shift
	exec timeout 600 "$java" -XX:AOTCacheOutput="$work/$kind.aot" "@$dist/lib/$kind.options" \
		-Dshadowverbs.home="$dist" "$@" </dev/null 2>"$work/$kind.log"
}

# $1: kind. Puts its cache in place.
collect()
{
	if [ -s "$work/$1.aot" ]; then
		mv "$work/$1.aot" "$dist/lib"
		echo "-XX:AOTCache=$dist/lib/$1.aot" >>"$dist/lib/$1.options"
	else
		echo "distribution: no AOT cache $1: $(head -n 1 "$work/$1.log")" >&2
	fi
}

mkfifo "$work/verdict"
(LD_LIBRARY_PATH=$dist/lib:$dist/fabric SHADOWVERBS_AGENT=$work/agent.sock \
	record rank org.shadowverbs.driver.Rank --train "$work/verdict" >/dev/null) || rm -f "$work/rank.aot"
collect rank
(record service "$main" service >/dev/null) || rm -f "$work/service.aot"
sed -n 's/^training: /distribution: services start slower: /p' "$work/service.log" >&2
collect service

# A command that only looks, and a launch that joins a coordinator and goes all the way: only the last step, to become the
# program, fails, or the JVM would be gone before it writes.
mkfifo "$work/ready"
"$dist/bin/shadowverbs" coordinator --port 0 --port-file "$work/port" --ckptdir "$work" \
	>"$work/ready" 2>"$work/coordinator.log" </dev/null &
coordinator=$!
if timeout 300 head -n 1 "$work/ready" >/dev/null && [ -s "$work/port" ]; then
	port=$(cat "$work/port")
	LC_ALL=C sed 's#/lib64/ld-linux#/lib64/no-linux#g' "$(type -P true)" >"$work/program"
	chmod +x "$work/program"
	(SHADOWVERBS_COORD_PORT=$port record command "$main" commands launch --test-fabric "$work/program" >/dev/null)
	[ $? = 126 ] || echo "distribution: launch ended otherwise: $(head -n 1 "$work/command.log")" >&2
	timeout 300 "$dist/bin/shadowverbs" quit -h localhost -p "$port" >"$work/quit.log" 2>&1 || {
		echo "distribution: quit failed: $(head -n 1 "$work/quit.log")" >&2
		kill "$coordinator"
	}
	wait "$coordinator"
	coordinator=
else
	echo "distribution: the coordinator did not start: $(head -n 1 "$work/coordinator.log")" >&2
fi
collect command
