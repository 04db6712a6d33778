// Package eventstore is the program's memory: the envelope of a stored event, the store that keeps it, the codec that
// names it, and the one loop through which every decision becomes a fact.
//
//	load ──▶ decide ──▶ append (explicit revision) ──▶ done
//	  ▲                        │ somebody was faster
//	  └────────────────────────┘ at most maxRetries times
//
// Package esdb implements Store on the official EventStoreDB client; package tail lets many consumers share one
// subscription; package node is the embedded server for the client;
// package storetest is the contract that any implementation must meet.
package eventstore
