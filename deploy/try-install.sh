#!/bin/sh
# Installs a release from its tarball on a bare Debian, upgrades it to the tarball of `make dist`, rolls it back and
# upgrades it again, by the commands of docs/operate/install.md. Each publishes an event that has to arrive as a webhook.
# What is run is printed; the first failure ends it.
#
#   sh deploy/try-install.sh COMMIT      of the release before; `make try-install` builds the other one and calls this
#
# Needs Linux, root, debootstrap, git, Go, a Debian mirror and a few minutes. Everything is in a temporary directory and in
# separate namespaces, and goes with this script. There is no systemd: a function below starts what the unit names, as
# its user and without capabilities.
set -eu
umask 022

here=$(cd "$(dirname "$0")/.." && pwd)

# commands prints those of a section of the document.
commands() {
	sed -n "/^## $1/,/^## /{/^\`\`\`sh/,/^\`\`\`/{/^\`\`\`/d;p;};}" "$here/docs/operate/install.md"
}

within() {
	chroot "$root" env -i HOME=/srv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -eu -c ". /srv/steps; $1"
}

if [ "$1" = --serve ]; then # in namespaces of its own
	root=$2
	mount -t proc proc "$root/proc"
	mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
	ip link set lo up
	within serve
	exit
fi

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM HUP
root=$work/root

git clone -q "$here" "$work/before"
git -C "$work/before" checkout -q "$1"
make -C "$work/before" dist
debootstrap --variant=minbase bookworm "$root" >"$work/log" || { tail "$work/log" >&2; exit 1; }
mkdir "$root/srv/before" "$root/srv/this"
cp "$work/before/bin/dist"/*.tar.gz "$work/before/bin/dist/SHA256SUMS" "$root/srv/before"
cp "$here/bin/dist/carillon-linux-$(dpkg --print-architecture).tar.gz" "$here/bin/dist/SHA256SUMS" "$root/srv/this"
commands systemd >"$root/srv/install"
commands 'Upgrade with systemd' >"$root/srv/upgrade"

cat >"$root/srv/steps" <<'END'
log=/var/log/carillon.log

# follow prints commands and runs them.
follow() {
	while read -r line <&3; do
		printf '\n$ %s\n' "$line"
		eval "$line" 3<&-
	done 3<<COMMANDS
$1
COMMANDS
}

# systemctl does what systemd does for the unit, and waits until the server serves.
systemctl() {
	[ "$1" != daemon-reload ] || return 0
	[ "$1" != restart ] || stop
	install -d -m 700 -o carillon -g carillon /var/lib/carillon
	(
		umask 077
		set -a
		CARILLON_DATA_DIR=/var/lib/carillon
		. /etc/carillon/carillon.env
		exec setpriv --reuid=carillon --regid=carillon --init-groups --no-new-privs --inh-caps=-all --bounding-set=-all \
			/usr/local/bin/carillon serve
	) >"$log" 2>&1 &
	server=$!
	await 'grep -q "\"serving\"" "$log"'
}

stop() {
	kill "$server"
	wait "$server"
}

# await waits for a minute until a condition holds.
await() {
	for _ in $(seq 60); do
		! eval "$1" || return 0
		sleep 1
	done
	tail -n 20 "$log"
	echo "not within a minute: $1" >&2
	exit 1
}

# deliver publishes an event and waits for its webhook.
events=0
deliver() {
	events=$((events + 1))
	follow "carillon version
carillon publish /srv/event.json"
	await '[ "$(grep -c "\"verified\":true,.*\"answered\":204" /srv/webhooks)" = "$events" ]'
	tail -n 1 /srv/webhooks | cut -c 1-160
}

install_before() {
	cd /srv/before
	follow "$(sed '/^systemctl/,$d' /srv/install)"
}

serve() {
	cd /srv/before
	follow "$(sed -n '/^systemctl/,$p' /srv/install)"
	organization=$(carillon org create "City of Ghent" --json | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p')
	key=$(carillon key issue "$organization" --json | sed -n 's/.*"key": *"\([^"]*\)".*/\1/p')
	cat >/srv/event.json <<EVENT
{"type":"news.item.added","source":"/news","organizationId":"$organization","data":{"id":"1","title":"Fair"}}
EVENT
	export CARILLON_API_KEY="$key"
	printf '\n$ carillon listen --stream --json\n'
	carillon listen --stream --json >/srv/webhooks 2>/srv/listen &
	listener=$!
	await 'grep Listening /srv/listen'
	deliver
	cd /srv/this
	tar -xzf ./*.tar.gz
	follow "$(cat /srv/upgrade)"
	deliver
	cd /srv/before
	follow "$(sed /backup/d /srv/upgrade)"
	deliver
	cd /srv/this
	follow "$(sed /backup/d /srv/upgrade)"
	deliver
	follow "carillon projections verify deliveries
carillon audit seal
carillon audit verify
carillon deliveries list"
	kill "$listener"
	wait "$listener"
	stop
	printf '\nInstalled, upgraded, rolled back and upgraded: %s events, each arrived once.\n' "$events"
}
END

within install_before
unshare --net --mount --pid --fork --kill-child sh "$0" --serve "$root"
