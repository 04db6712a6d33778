// Package persistent runs persistent subscriptions: groups of consumers that share the events of a stream or of $all,
// where the node remembers how far the group has come.
//
//	source ─read─▶ fresh ─┐
//	parked ─read─▶ replay ┼─dispatch─▶ in flight ─ack, skip─▶ done ─▶ checkpoint
//	            ▶ retries ┘               │
//	               ▲───── nack, timeout, │ lost consumer ──▶ too often, or nack with park ─▶ parked stream
//
// A group is one goroutine that owns all of this; everything else talks to it by messages. Delivery is at least once:
// the checkpoint is a point before which everything is done, so after a restart what was done beyond it comes again.
// Events to be tried again go before fresh ones, in their first order.
package persistent
