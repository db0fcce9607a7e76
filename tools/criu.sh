#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Puts a CRIU that runs on this kernel at .tools/criu/sbin/criu, and the headers for its plugins at .tools/criu/include.
#
# CRIU has to know the kernel's own mappings, so a distribution's version may be too old for the kernel it finds. Before
# 4.2 it also needs breakpoints of the processor, which some virtual machines do not have. The installed CRIU is taken if
# it saves a process and brings it back; else that of this Debian release or of a later suite, unpacked with its
# libraries into the project's own folder: first those that are not older than the kernel, as releases know it. Nothing of
# the system is replaced. Packages come from the mirror, and through the proxy, that apt is configured with, and apt
# checks their signatures.
set -u

root=$(cd "$(dirname "$0")/.." && pwd -P)
mkdir -p "$root/.tools" || exit 1
# Clones of the project may share the folder by a link.
dest=$(cd "$root/.tools" && pwd -P)/criu
stamp=$dest/stamp
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
later_suites="trixie forky sid"

say()
{
	echo "setup: $*" >&2
}

# The kernel decides whether a CRIU runs, and the unpacked one holds absolute paths.
identity()
{
	echo "$dest $(uname -r) $(uname -m)"
}

as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

# $1: a criu. What it says goes to $log.
runs_here()
{
	"$1" --version >"$log" 2>&1 || return 1
	as_root "$1" check >>"$log" 2>&1 && saves_and_restores "$1"
}

# "criu check" asks what the kernel has, and tries nothing.
saves_and_restores()
{
	trial=$work/trial
	rm -rf "$trial"
	mkdir "$trial" || return 1
	# With no descriptor of ours.
	setsid sleep 300 </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
	sleeper=$!
	for command in "dump -t $sleeper" "restore -d"; do
		if ! as_root timeout -k 5 30 "$1" $command -D "$trial" >>"$log" 2>&1; then
			echo "Error: criu ${command%% *} of a process that sleeps has failed, or was not done within 30 s" >>"$log"
			kill -9 "$sleeper" 2>/dev/null
			return 1
		fi
		# CRIU makes it again with the same pid, of which nothing may be left.
		wait "$sleeper" 2>/dev/null
	done
	as_root kill -9 "$sleeper"
	as_root rm -rf "$trial"
}

# The address of the Debian archive that apt is configured with for this release.
archive()
{
	. /etc/os-release
	apt-get update --print-uris 2>/dev/null |
		sed -n "s#^'\(.*\)/dists/$VERSION_CODENAME/\(In\)\{0,1\}Release'.*#\1#p" | head -n 1
}

# This release and later ones in the order in which their CRIU is tried.
suites()
{
	running=$(uname -r | cut -d . -f 1-2)
	older=
	for suite in "$(. /etc/os-release && echo "$VERSION_CODENAME")" $later_suites; do
		case $suite in
		bookworm) kernel=6.1 ;;
		trixie) kernel=6.12 ;;
		*) kernel=$running ;;
		esac
		if printf '%s\n' "$running" "$kernel" | sort -C -V; then
			echo "$suite"
		else
			older="$older $suite"
		fi
	done
	echo "$older"
}

private_apt()
{
	apt_command=$1
	shift
	"$apt_command" -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" \
		-o Dir::Cache="$work/cache" -o Dir::Log="$work" -o Debug::NoLocking=true \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none "$@"
}

# $1: suite. Unpacks its CRIU, the headers for CRIU plugins and the libraries both need into $work/criu.
unpack()
{
	rm -rf "$work/lists" "$work/cache" "$work/tree" "$work/criu"
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/tree" "$work/criu/lib"
	: >"$work/status"
	echo "deb [signed-by=$keyring] $uri $1 main" >"$work/sources.list"
	private_apt apt-get update >"$log" 2>&1 || return 1

	packages=$(private_apt apt-get install -s --no-install-recommends criu 2>"$log" |
		sed -n 's/^Inst \(criu\|lib[^ ]*\) .*/\1/p')
	[ -n "$packages" ] || return 1
	# Since Debian 13 libcriu-dev has the headers for plugins; what it depends on is not needed.
	private_apt apt-cache show libcriu-dev >/dev/null 2>&1 && packages="$packages libcriu-dev"
	(cd "$work/cache" && private_apt apt-get download $packages) >"$log" 2>&1 || return 1
	for package in "$work"/cache/*.deb; do
		dpkg-deb -x "$package" "$work/tree" || return 1
	done

	find "$work/tree" -type f -name '*.so*' ! -path '*/gconv/*' ! -path '*/criu/*' \
		-exec cp -p -t "$work/criu/lib" {} + || return 1
	# The links from a library's soname to its file, not those between folders.
	find "$work/tree" -type l -name '*.so*' ! -lname '*/*' -exec cp -P -t "$work/criu/lib" {} + || return 1
	find "$work/tree" -path '*/usr/share/doc/*' -prune -o -type f -path '*/sbin/criu' -print >"$work/binary"
	mkdir -p "$work/criu/sbin" "$work/criu/include"
	cp "$(cat "$work/binary")" "$work/criu/sbin/criu" || return 1
	[ ! -d "$work/tree/usr/include/criu" ] || cp -r "$work/tree/usr/include/criu" "$work/criu/include" || return 1

	loader=$(patchelf --print-interpreter "$work/criu/sbin/criu") || return 1
	loader=${loader##*/}
	# The run path of an executable is searched for the libraries of its libraries only when it is a DT_RPATH.
	patchelf --set-interpreter "$dest/lib/$loader" --force-rpath --set-rpath "$dest/lib" \
		"$work/criu/sbin/criu" >"$log" 2>&1
}

install_unpacked()
{
	rm -rf "$dest"
	mv "$work/criu" "$dest"
}

finish()
{
	identity >"$stamp"
	exit 0
}

is_done()
{
	[ -x "$dest/sbin/criu" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$(identity)" ]
}

is_done && exit 0
if ! as_root true 2>/dev/null; then
	say "CRIU needs root or CAP_CHECKPOINT_RESTORE: run this as root, or allow sudo without a password"
	exit 1
fi

# Of two that set up at the same time one waits for the other.
exec 9>"$root/.tools/lock" || exit 1
if ! flock -w 600 9; then
	say "waited 10 minutes for another setup of CRIU (lock .tools/lock)"
	exit 1
fi
is_done && exit 0

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
log=$work/log

installed=$(PATH=$PATH:/usr/sbin:/sbin command -v criu)
if [ -n "$installed" ] && [ -f /usr/include/criu/criu-plugin.h ] && runs_here "$installed"; then
	rm -rf "$dest"
	mkdir -p "$dest/sbin" "$dest/include"
	ln -s "$installed" "$dest/sbin/criu"
	ln -s /usr/include/criu "$dest/include/criu"
	finish
fi

uri=$(archive)
if [ -z "$uri" ]; then
	say "no Debian archive in apt's configuration; install a CRIU that passes 'criu check' on kernel $(uname -r)"
	exit 1
fi
for suite in $(suites); do
	if ! unpack "$suite"; then
		say "CRIU of Debian $suite can't be had: $(tail -n 1 "$log")"
		continue
	fi
	install_unpacked
	if runs_here "$dest/sbin/criu"; then
		say "CRIU $("$dest/sbin/criu" --version | sed -n 's/^Version: //p') of Debian $suite is in .tools/criu"
		finish
	fi
	say "CRIU of Debian $suite does not run on kernel $(uname -r): $(grep Error "$log" | grep -v status= | tail -n 1)"
done
rm -rf "$dest"
say "no CRIU runs on kernel $(uname -r)"
exit 1
