// Package eventstore is the program's memory: the envelope of a stored event, the store that keeps it, the codec that
// names it, and the one loop through which every decision becomes a fact, Aggregate.Execute.
//
//	load ──▶ decide ──▶ append at the revision that was loaded ──▶ done
//	  ▲                        │ somebody was faster, or the store can't be reached:
//	  └────────────────────────┘ again, for a limited time (contention, patience)
//
// Follow is a subscription that outlives its connection. ProcessManager is what answers events with commands.
//
// Package esdb implements Store on the official EventStoreDB client, and package node is the embedded server for that
// client. Package tail lets many consumers share one subscription, and package copying copies one store into another.
// For tests there are aggregatetest (given, when, then), nodetest (a node for one test) and storetest, the contract
// that any Store must meet.
package eventstore
