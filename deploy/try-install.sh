#!/bin/sh
# Installs Carillon on a bare Debian by the commands of docs/operate/install.md, the release before first, then upgrades it,
# rolls it back and upgrades it again, as docs/operate/upgrade.md says. After each step an event is published and has to arrive
# as a webhook. Prints what it runs, and ends with an error at the first failure.
#
#   sh deploy/try-install.sh TARBALL-BEFORE TARBALL      each beside its SHA256SUMS; make try-install builds both
#
# Needs Linux, root, debootstrap and a Debian mirror. The root lies in a temporary directory with its own network and
# processes, all of which end with this script. It has no systemd: a function runs what the unit says, without its hardening.
set -eu
umask 022

# commands prints the commands under a heading of a document.
commands() {
	sed -n "/^## $1/,/^## /{/^\`\`\`sh/,/^\`\`\`/{/^\`\`\`/d;p;};}" "$docs/$2"
}

# within CODE... runs a script in the root. Its commands are the transcript.
within() {
	chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PS4='$ ' \
		DEBIAN_FRONTEND=noninteractive sh -eux /root/"$1"
}

# copied DIR TARBALL copies a release to where commands find it.
copied() {
	mkdir -p "$root/root/$1"
	cp "$2" "$(dirname "$2")/SHA256SUMS" "$root/root/$1"
}

if [ "${1:-}" = --inside ]; then
	root=$2
	mount -t proc proc "$root/proc"
	ip link set lo up
	within serve
	exit
fi

docs=$(dirname "$0")/../docs/operate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
root=$work/root

debootstrap --variant=minbase bookworm "$root" >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; exit 1; }
copied before "$1"
copied this "$2"
