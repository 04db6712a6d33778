// Package delivery brings published events to destinations.
//
//	publication ─▶ Dispatcher ─▶ dispatch (whole fan-out, one append) ─▶ Deliverer ─▶ signed POST ─▶ delivery.attempted
//	                   ▲ Routes                │                            ▲
//	feed, destination, ┘                       └─▶ read model ─▶ Queue ─────┘ retries, replays, what another node left
//	subscription
//
// The Dispatcher hands a fresh delivery to the Deliverer of its own process without a detour through Postgres: the
// dispatch event names the worker that holds it, and the end of the lease. A delivery without a worker, or lost by
// one, is claimed from the read model by any node.
package delivery
