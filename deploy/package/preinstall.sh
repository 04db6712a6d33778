#!/bin/sh
set -e
getent passwd carillon >/dev/null ||
	useradd --system --user-group --home-dir /var/lib/carillon --shell /usr/sbin/nologin carillon
