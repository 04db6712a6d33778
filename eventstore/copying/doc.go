// Package copying copies the events of one event store into another, over the protocol that every EventStoreDB client
// speaks: from the embedded node into a cluster, or the other way round.
//
//	source $all ──▶ append, in the same order, each at its own revision, many on their way ──▶ target
//	source $all ──▶ compare, event by event, and by count and hash per stream ◀── target $all
//	source metadata, last revisions ──▶ last, so that no event is hidden before it was compared
//
// Events keep their streams, revisions, ids, types and data, and the order that they have among all streams: a rebuild
// from the copy sees causes before consequences. Values that a server assigns are new: positions, and the time of
// recording; the original time is kept in the metadata (eventstore.OriginalCreated), which is otherwise unchanged.
//
// If the source has lost events, the target gets hidden ones in their places (eventstore.Filler), so that later events
// keep their revisions, also if there are none yet.
//
// The target's own log shows the progress of a copy, so an interrupted copy resumes, and a second run adds the source's
// later events. A target that holds anything else is refused.
//
// The store's own system events are not copied, except metadata and deletions: a server makes its own.
package copying
