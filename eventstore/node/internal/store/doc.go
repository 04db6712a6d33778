// Package store keeps the events of one node: a log in commit order, a revision index per stream, and one head per
// stream, in a single Pebble database.
//
// # Writing
//
// One sequencer goroutine owns all decisions: it drains the queue, checks each request against the stream's head, adds
// the accepted events to one batch and applies it. A second goroutine waits for the batches to be synced, in order;
// only then does it advance the watermark, answer the requests and wake tailers, while the sequencer already builds the
// next batch. Refusals are answered in the same order, so that no answer depends on an event that could still be lost.
// A commit that fails stops the store permanently: after a failed sync the content of the disk is unknown.
//
//	callers ─▶ queue ─▶ sequencer (decide, batch, apply) ─▶ syncer (wait, watermark, answer, wake)
//
// # Reading
//
// Pebble shows a batch as soon as it is applied, thus before it is durable. Every reader is therefore bounded by the
// watermark, the position of the last durable event. A stream's head is one record that may be newer than the
// watermark; a reader that meets such a head waits for that one sync.
//
// # Keys
//
//	'h' stream name           → head: stream id, last revision, truncation settings
//	'i' stream id, revision   → position, event id
//	'l' position              → record: header, then the event as it goes over the wire
//	'm' name                  → facts about the database itself
//	'p' name                  → persistent subscriptions of earlier versions, which nothing reads
//
// A stream's id is the position of its first event. Positions are offsets in the log of all records ever written, so
// they grow strictly, have gaps, and can be recovered from the last record alone: opening scans nothing.
package store
