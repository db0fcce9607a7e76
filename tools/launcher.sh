#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The command of the distribution: dist/bin/shadowverbs.

home=$(dirname "$(dirname "$(readlink -f "$0")")")
java=$(cat "$home/lib/java-home")/bin/java
if [ ! -x "$java" ]; then
	echo "shadowverbs: no JDK any more at ${java%/bin/java}, with which this was built: build again" >&2
	exit 1
fi
case "${1-} $* " in
"coordinator "*" --daemon "* | "agent "*" --daemon "*) kind=command ;; # starts the service and ends
"coordinator "* | "agent "* | "restart "*) kind=service ;;
*) kind=command ;;
esac
# What services leave in the run directory and in checkpoints is for their user alone. Programs have the umask that they are
# launched with.
[ "$kind" = command ] || umask 077
exec "$java" "@$home/lib/$kind.options" -Dshadowverbs.home="$home" org.shadowverbs.coordinator.cli.Main "$@"
