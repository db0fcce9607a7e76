#!/bin/sh
# The distribution's own programs on the software HCA: both ends have to end with status 0.
# usage: programs.sh FOLDER_OF_THE_LIBRARY
set -eu
lib=$(cd "$1" && pwd)
work=$(mktemp -d)
export SV_HCA_FABRIC="$work/fabric"
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || :; fi; rm -rf "$work"' EXIT

for program in ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_xsrq_pingpong ib_send_bw; do
	if ! command -v $program >/dev/null; then
		echo "programs: $program is missing; install ibverbs-utils and perftest" >&2
		exit 1
	fi
done

# Waits until a process listens on port $1.
listens() {
	hex=$(printf '%04X' "$1")
	end=$(($(date +%s) + 20))
	until cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$hex [0-9A-F]*:0000 0A"; do
		if [ "$(date +%s)" -gt $end ]; then
			echo "programs: waited 20 s for a server to listen on port $1" >&2
			cat "$work/server" >&2
			return 1
		fi
	done
}

port=$((20000 + $$ % 10000))

# One run of a program against itself; 2 when perftest gave up measuring the clock, which a busy machine makes it do.
run_once() {
	port=$((port + 1))
	LD_LIBRARY_PATH=$lib timeout 60 "$@" -p $port >"$work/server" 2>&1 &
	server=$!
	listens $port
	status=0
	LD_LIBRARY_PATH=$lib timeout 60 "$@" -p $port localhost >"$work/client" 2>&1 || status=$?
	wait $server || status=$?
	server=
	if [ $status != 0 ] && grep -q "Can't produce a report" "$work/client" "$work/server"; then
		return 2
	fi
	return $status
}

run() {
	for attempt in 1 2 3 4 5 6; do
		status=0
		run_once "$@" || status=$?
		[ $status = 2 ] || break
	done
	if [ $status != 0 ]; then
		echo "programs: $* failed with status $status" >&2
		cat "$work/server" "$work/client" >&2
		exit 1
	fi
	echo "  $*: ok"
}

LD_LIBRARY_PATH=$lib ibv_devices | grep -q shadow0
LD_LIBRARY_PATH=$lib ibv_devinfo -v | grep -q PORT_ACTIVE
run ibv_rc_pingpong -c -n 20000
run ibv_rc_pingpong -c -e -n 2000
run ibv_rc_pingpong -g 0 -n 2000
run ib_send_bw
run ib_send_bw -e -n 1000
run ib_send_bw -q 16 -n 200
run ib_send_bw -b
run ib_send_lat
run ib_write_bw -n 1000
run ib_write_lat
run ib_read_bw
run ib_atomic_bw
run ibv_srq_pingpong -c -n 2000
run ibv_srq_pingpong -e -q 4 -n 1000
run ib_send_bw --use-srq -q 4 -n 200
run ib_send_lat --use-srq -n 200
run ibv_uc_pingpong -c -n 5000
run ibv_uc_pingpong -e -n 2000
run ib_send_bw -c UC -n 1000
run ib_send_lat -c UC -n 1000
run ib_write_bw -c UC -n 1000
run ib_write_lat -c UC -n 1000
run ibv_ud_pingpong -n 5000
run ibv_ud_pingpong -e -n 2000
run ibv_ud_pingpong -g 0 -n 2000
run ib_send_bw -c UD -n 1000
run ib_send_lat -c UD -n 1000
run ibv_rc_pingpong -t -n 1000
run ibv_rc_pingpong -N -c -n 2000
run ibv_rc_pingpong -j -n 2000
run ibv_rc_pingpong -t -N -n 1000
run ibv_xsrq_pingpong -n 100
run ib_send_bw -c XRC -n 1000
run ib_send_lat -c XRC -n 1000
run ib_write_bw -c XRC -n 1000
run ib_read_lat -c XRC -n 1000
run ib_atomic_lat -c XRC -n 1000
