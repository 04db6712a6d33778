// Package custody keeps the wrapped data keys in two places: in Postgres, where they are read, and in a key store beside
// it, a directory or a second database. Either may be lost and is filled again from the other. The events decide: what
// belongs to a deleted destination, or to a certificate that ended, goes from both, also where a backup brought it back.
//
//	Postgres    wrapped by the master key and the epoch key together
//	directory   "slots": wrapped by the master key; a slot is overwritten when its key is shredded
//	            "epoch.key": the epoch keys, and a copy of it in the data directory; overwritten when they are renewed
//
// Postgres never overwrites: its heap, its log and its backups keep what was deleted. Therefore the epoch key is renewed
// after keys were shredded: the others are wrapped anew, and the old epoch key is overwritten. What Postgres has kept
// opens for nobody from then on.
package custody
