#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: tools/sources.sh [FILE]
#
# Prints the files that the distribution is made of, sorted; with FILE those that are newer than it.

cd "$(dirname "$0")/.." || exit 1
find pom.xml */pom.xml */src verbs-bindings native test-fabric tools docs/job.sbatch \
	-type d \( -name target -o -name 'build*' \) -prune -o -type f ${1:+-newer "$1"} -print | LC_ALL=C sort -u
