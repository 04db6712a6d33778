// Package eventstore is the program's memory: the envelope of a stored event, the store that keeps it, the codec that
// names it, and the one loop through which every decision becomes a fact, Aggregate.Execute.
//
//	load ──▶ decide ──▶ append at the revision that was loaded ──▶ done
//	  ▲                        │ another append was faster, or the store is away:
//	  └────────────────────────┘ again, for a limited time (contention, patience)
//
// Follow is a subscription that outlives its connection. ProcessManager answers events with commands.
//
// # Appends whose outcome is unknown
//
// An append that ends with ErrUnavailable may have been written. Each append of the program names its event ids, and a
// revision, and goes to one stream. No caller relies on a server that remembers an id for more than one stream, or that
// recognizes each repetition: a real one does not after the stream was deleted, and does not answer it while nothing is
// replicated.
//
//	append                            after an unknown outcome
//	Execute                           loads the stream, is done if that holds the command's first event, and else decides
//	                                  again; for 5 s (patience), then ErrUnavailable
//	Execute with OnlyKnown            appends the same again; if that is a wrong revision, the stream shows whether the
//	                                  command was recorded
//	commands of the API and the CLI   report the outcome as unknown (503). A publication repeated under its id is the
//	                                  same command; another command is decided on the stream's state then
//	reservations of names             are looked up again by the next command for the name; an unrecorded release is
//	                                  found as abandoned
//	process managers, cascades        start again from their checkpoint, and execute under the id of the cause
//	outcomes of delivery attempts     are executed again under the same CommandID until they are recorded, or the lease
//	                                  ends and the delivery is sent again
//	collection of a source            the turn ends; the next turn reads the source again
//	copying events and fillers        sends all that is unanswered again, in order, at the same revisions
//	copying metadata                  reads the metadata of the target, and writes only what differs
//	copying of tombstones             sends them again; a stream that has ended is no error
//	esdb.Store.LastRevision           appends no events
//
// Answers with success but without a position mean that nothing was written, as the stream had the events before it was
// deleted: Execute returns the stream's state.
//
// Package esdb implements Store on the official EventStoreDB client, and package node is the embedded server for that
// client. Package tail lets many consumers share one subscription, and package copying copies one store into another.
// For tests there are aggregatetest (given, when, then), nodetest (a node for one test) and storetest, the contract
// that any Store must meet.
package eventstore
