// Package delivery brings published events to destinations.
//
//	publication ─▶ Dispatcher ─▶ dispatch (whole fan-out, one append) ─▶ Deliverer ─▶ signed POST ─▶ delivery.attempted
//	                   ▲ Routes                │                            ▲
//	feed, destination, ┘                       └─▶ read model ─▶ Queue ─────┘ retries, replays, what another node left
//	subscription
//
// The Dispatcher hands a fresh delivery to the Deliverer of its own process without a way round through Postgres: the
// dispatch event says which worker holds it, and for how long. What no worker holds, or what a worker lost, is claimed
// from the read model by any node.
package delivery
