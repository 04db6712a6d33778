#!/bin/sh
# Makes sure that there is a Chromium, for the tests of the console's pages. Quick and silent when there is. Else it installs
# Debian's package with apt, where it may. It never fails: without a browser those tests are skipped, and this says so.
#
#   --look                   only say what is missing
#   CARILLON_TEST_CHROMIUM   the browser's program, where it is in no usual place
set -u

for name in "${CARILLON_TEST_CHROMIUM:-}" chromium chromium-browser google-chrome; do
	[ -n "$name" ] && command -v "$name" >/dev/null && exit 0
done

say() { printf '%s\n' "$*" >&2; }

as_root() {
	if [ "$(id -u)" = 0 ]; then
		env DEBIAN_FRONTEND=noninteractive "$@"
	else
		sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
	fi
}

install() { as_root timeout 600 apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1; }

if [ "${1:-}" != --look ] && command -v apt-get >/dev/null && as_root true 2>/dev/null; then
	say 'Installing Chromium with apt ...'
	install || { as_root timeout 120 apt-get -q update >/dev/null 2>&1 && install; }
	command -v chromium >/dev/null && exit 0
	say 'apt could not install it.'
fi
say 'There is no Chromium: the tests of the console in a browser are SKIPPED. To run them, install it (apt-get install chromium), or name'
say 'the program of another one with CARILLON_TEST_CHROMIUM.'
exit 0
