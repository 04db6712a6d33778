// Package seal makes the log evident when touched: a Merkle tree over its events in global order, as Certificate
// Transparency has it (RFC 9162), and tree heads that are signed by Ed25519.
//
//	event ──LeafHash──▶ leaf ──Tree.Append──▶ root ──Sign──▶ Head
//	                     │
//	                     └──▶ Leaf: its hash and place, kept for the day when the event itself is scavenged
//
// A leaf has only what a copy in another store has as well. So one tree holds for a log, its backups and its copies.
//
// An Export is a few events with the proof that each is in the tree of a head. It is verified without a server.
package seal
