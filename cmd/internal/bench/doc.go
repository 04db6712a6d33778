// Package bench measures a whole server from outside: a process on embedded defaults, beside the receivers and the
// sites of the benchmark's process, so that their load is in no figure. All results go into one table at the end of the
// run.
//
// Sizes come from the environment: DELIVERIES, INGESTED, KNOWN, SOURCES, CHANGES, LARGE. PROFILES names a directory
// for profiles of the server.
package bench
