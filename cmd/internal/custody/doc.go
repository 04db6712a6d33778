// Package custody keeps the wrapped data keys: in one home, and in a copy of it if an operator names a place for one.
//
//	home   a directory beside an embedded store, with a file for each key, wrapped by the master key;
//	       or Postgres, wrapped by the master key and the epoch key together
//	copy   such a directory, or a second Postgres; wrapped by the master key
//
// The events decide which keys exist: the key of an owner that ended is erased, even if a backup brings it back, and an
// owner that lives and has no key is reported as lost. See docs/decide/0050-one-home-of-keys.md.
package custody
