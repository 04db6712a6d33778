// Package backup copies an installation's event store and data keys into a directory, and makes an installation of it
// again. The keys are exactly those of the destinations that live in the copied history, wrapped by the master key,
// which is not in the directory. Both ways end with a check: every stream has the same hash, and every live
// destination's newest secret opens. The manifest has the hashes of the other two files and of the order of events, and
// a MAC under a key that is derived from the master key: so write access to the place of backups is not enough to make
// one that is restored.
//
//	eventstore/     a node's directory
//	keys/slots      a key store
//	streams.ndjson  each stream's count of events, last revision and SHA-256
//	backup.json     the manifest; it is written last
package backup
