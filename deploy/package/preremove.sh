#!/bin/sh
# Of an upgrade, Debian says "upgrade" and Red Hat 1. Data, settings and the user stay.
set -e
[ -d /run/systemd/system ] || exit 0
case $1 in remove | 0) systemctl disable --now carillon.service ;; esac
