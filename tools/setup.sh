#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: tools/setup.sh [build|run|test|bench|guest...]      build and run when none is named
#
# Installs what is missing on a Debian machine, from where its apt is configured to get packages: as root, or by sudo
# where that asks for no password. What is there already, however it got there, is left alone.
set -u

tools=$(cd "$(dirname "$0")" && pwd -P)

# For each purpose: what must be there (a command or a file), and the package that has it. The guest machine has a file
# of its own.
for_build="
	mvn:maven
	gcc:gcc
	make:make
	/usr/include/stdio.h:libc6-dev
	/usr/include/infiniband/verbs.h:libibverbs-dev
	/usr/include/rdma/rdma_cma.h:librdmacm-dev
	flock:util-linux"
for_run="
	ibv_rc_pingpong:ibverbs-utils
	ib_send_bw:perftest
	ucx_perftest:ucx-utils
	unshare:util-linux
	patchelf:patchelf
	/usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring"
for_bench="
	iperf3:iperf3"
for_test="
	redis-server:redis-server
	fi_pingpong:libfabric-bin
	qperf:qperf
	rping:rdmacm-utils
	mpiexec.mpich:mpich
	mpicc.mpich:libmpich-dev
	mpirun.openmpi:openmpi-bin
	mpicc.openmpi:libopenmpi-dev
	hpcc:hpcc
	g++:g++
	gfortran:gfortran
	/usr/include/gloo/config.h:libgloo-dev
	ip:iproute2
	munged:munge
	slurmctld:slurmctld
	slurmd:slurmd
	srun:slurm-client
	gdb:gdb"

say()
{
	echo "setup: $*" >&2
}

is_there()
{
	case $1 in
	/*) ls $1 >/dev/null 2>&1 ;; # a pattern when the file's name has a version
	*) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
	esac
}

# $@: pairs. Prints the packages of those that are not there.
missing()
{
	for pair in "$@"; do
		is_there "${pair%%:*}" || echo "${pair#*:}"
	done | sort -u | paste -s -d ' ' -
}

as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
	fi
}

apt()
{
	as_root timeout 900 apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 "$@" >"$log" 2>&1
}

install_missing()
{
	packages=$(missing "$@")
	[ -n "$packages" ] || return 0
	if ! command -v apt-get >/dev/null; then
		say "missing: $packages (Debian's package names); this machine has no apt-get, so install them by its own means"
		return 1
	fi
	if ! as_root true 2>/dev/null; then
		say "missing: install them with: apt-get install $packages"
		return 1
	fi
	say "installing $packages"
	log=$(mktemp) || return 1
	# The lists of a fresh machine are empty, and those of an old one name packages that are gone.
	if ! { apt update && apt install --no-install-recommends $packages; }; then
		say "apt-get failed: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")"
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
	packages=$(missing "$@")
	[ -z "$packages" ] || { say "still missing after the installation: $packages"; return 1; }
}

export DEBIAN_FRONTEND=noninteractive
[ $# -gt 0 ] || set -- build run
needed=
for purpose; do
	case $purpose in
	build) needed="$needed $for_build" ;;
	run) needed="$needed $for_run" ;;
	test) needed="$needed $for_test" ;;
	bench) needed="$needed $for_bench" ;;
	guest) needed="$needed $(grep -v '^#' "$tools/../test-fabric/guest/packages")" ;;
	*) echo "usage: $0 [build|run|test|bench|guest...]" >&2; exit 2 ;;
	esac
done
status=0
install_missing $needed || status=1
for purpose; do
	case $purpose in
	build) "$tools/jdk.sh" >/dev/null || status=1 ;;
	run) [ "$status" != 0 ] || "$tools/criu.sh" || status=1 ;;
	esac
done
exit $status
