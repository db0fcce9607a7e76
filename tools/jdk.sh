#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prints the home of an installed JDK 25, or says what to install.

is_jdk_25()
{
	[ -x "$1/bin/javac" ] && grep -q '^JAVA_VERSION="25[".+]' "$1/release" 2>/dev/null
}

javac=$(command -v javac)
[ -z "$javac" ] || javac=$(readlink -f "$javac")
for home in "${JAVA_HOME:-}" "${javac%/bin/javac}" /usr/lib/jvm/* /opt/*jdk*; do
	if [ -n "$home" ] && is_jdk_25 "$home"; then
		echo "$home"
		exit 0
	fi
done
echo "setup: no JDK 25 found: install one (package temurin-25-jdk or openjdk-25-jdk) or point JAVA_HOME at it" >&2
exit 1
