//go:build unix

// Package postgres runs a private Postgres server for one Carillon process, so that the read models work on a machine
// without a database server.
//
// Start finds the binaries of Postgres 15 or newer, makes a cluster on the first start, stops the server of a killed
// predecessor, starts the server and waits until it accepts connections. The server listens on a unix socket in a
// directory of mode 0700 and never on TCP; peer authentication lets in the operating system user that called Start and
// no one else, so the URL holds no secret.
//
// In Config.Dir:
//
//	lock             held while a server runs: one process per directory
//	pgdata/          the cluster
//	run/             the socket
//	postgresql.conf  written again at every start, as pg_hba.conf and pg_ident.conf; tune with ALTER SYSTEM
//	postgres.log     the server's log, and postgres.log.1
//
// Postgres refuses to run as root. When root calls Start, the server runs as the user that owns the cluster, else as
// "postgres", else as "nobody". If that user can't reach Dir (a directory below /root, say), the cluster lives in a
// separate directory below /var/lib/carillon, and the symbolic link cluster-home in Dir leads to it.
//
// The server never outlives the process: a stop is a fast shutdown, and when the process is killed, the kernel (on
// Linux) or a watching shell (elsewhere) shuts the server down in the same way.
package postgres
