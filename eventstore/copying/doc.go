// Package copying copies what one event store holds into another, over the protocol that every EventStoreDB client
// speaks: from the embedded node into a cluster, or the other way round.
//
//	source $all ──▶ append, in the same order, each at its own revision, many on their way ──▶ target
//	source $all ──▶ compare, event by event, and by count and hash per stream ◀── target $all
//	source metadata, last revisions ──▶ last, so that nothing is hidden before it was compared
//
// Events keep their streams, revisions, ids, types and data, and the order that they have among all streams: whoever
// rebuilds from the copy sees causes before consequences. What a server gives out itself is new: positions, and the
// time of recording; the original time is kept in the metadata (eventstore.OriginalCreated), which is otherwise
// unchanged.
//
// Where the source has lost events, the target gets hidden ones in their places (eventstore.Filler), so that what
// follows has its own revision there, also where nothing follows yet.
//
// The target's own log says how far a copy has come, so one that was cut off goes on where it was, and a second run
// adds what the source has got since. A target that holds anything else is refused.
//
// The store's own system events are not copied, except metadata and deletions: a server makes its own.
package copying
