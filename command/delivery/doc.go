// Package delivery brings published events to destinations. Its parts, each of which knows only those below it:
//
//	autodisable   disables destinations that fail, and has notices made
//	notices       makes publications about destinations and sources, paced, for who named an address for them
//	cascade       deletes, deactivates and discards what follows from a deletion
//	dispatching   turns a published event into its fan-out, in one append, and hands deliveries over
//	sending       sends what is handed over or claimed, and records each attempt
//	routing       who gets an event: feeds, destinations, subscriptions, debounce windows
//	facts         what a request needs to know, followed in memory: may it be sent, where to, by which secrets
//	schedule      which delivery is sent next: lanes, limits, rests, shares of organizations
//
//	publication ─▶ Dispatcher ─▶ dispatch (whole fan-out, one append) ─▶ Deliverer ─▶ signed POST ─▶ delivery.attempted
//	                   ▲ Routes                │                            ▲
//	feed, destination, ┘                       └─▶ read model ─▶ Queue ─────┘ retries, replays, what another node left
//	subscription
//
// The Dispatcher hands a fresh delivery to the Deliverer of its own process without a detour through Postgres: the
// dispatch event names the worker that holds it, and the end of the lease. A delivery without a worker, or lost by
// one, is claimed from the read model by any node.
//
// # Glossary
//
// A word has one meaning in these packages, and a meaning one word: names have none of those in brackets. A test of
// cmd/internal/arch holds them to it.
//
//	delivery    one publication for one destination (not job task)
//	dispatch    the event that names all deliveries of a publication
//	fresh       of a delivery: handed over by a dispatcher, never claimed
//	handoff     the way from the dispatcher to a worker, past Postgres (not transfer)
//	lease       the time for which a worker holds a delivery
//	worker      a deliverer as leases name it (not agent runner)
//	claim       the taking of due deliveries from the read model (not look poll dequeue)
//	room        the deliveries that may come in, by Admit or by a claim (not slack)
//	capacity    the room that a worker announces to dispatchers of other processes
//	schedule    the order in which deliveries are sent
//	lane        the queue of one destination
//	class       the cost of a lane's next request: connected, cold, slow
//	pool        a limited resource that organizations share
//	window      the requests that a lane may have in flight (not concurrency)
//	rest        the time for which a receiver asked to be left alone (not cooldown)
//	pace        the time between two requests after a rest
//	limit       the requests per second that a destination takes (not throttle quota)
//	slot        the right to some requests within a limit, from all processes' share
//	turn        an organization's place among the publishers whose fan-outs wait
//	debounce    the time in which a newer event of a subject supersedes an older one (not coalesce)
//	attempt     one request of a delivery (not try)
//	outcome     the end of an attempt, as it is recorded (not settle)
//	target      a destination with its address and secrets opened
//	standing    the facts by which a delivery may be sent (not entitlement permission)
//	notice      a publication about a destination or a source (not alert)
package delivery
