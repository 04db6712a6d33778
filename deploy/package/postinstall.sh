#!/bin/sh
# A server that runs is started again as the new version; who installs it first enables it when the settings are right.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart carillon.service
