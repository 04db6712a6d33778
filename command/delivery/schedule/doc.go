// Package schedule decides which delivery is sent next. It is pure: it starts no goroutine, reads no clock and does
// no I/O. Each call takes the time; the results include the time of the next call.
//
//	       Admit, Offer                  Next                             Done
//	fresh   ──▶ ┌───────── lane A1 ──┐
//	claimed ──▶ │ fresh │ claimed    ├─┐ organization A ┐
//	            ├───────── lane A2 ──┤ │   lanes take   │ organizations    ┌─ connected ─┐
//	            │       │            ├─┘   turns        ├──── take turns ─▶├─ cold ──────┤─▶ requests in flight
//	            ├───────── lane B1 ──┤                  │    in each class └─ slow ──────┘
//	            │       │            ├── organization B ┘
//	            └────────────────────┘
//
// A lane is the queue of one destination. Fresh deliveries, which the dispatcher offers, and claimed ones, which
// come from the read model, take turns in it. It has a window of requests in flight, which begins at startWindow,
// grows by one with each answer, up to PerLane, and is halved by a failure, once for the requests of one window.
// A refusal lets it rest; what waited is sent afterwards at about the pace that the receiver took before. If its
// destination has a limit of requests per second, which comes with each delivery, requests begin in slots that the
// caller takes for it from what all processes share.
//
// A lane is in one of three classes:
//
//	connected  a connection to its destination is idle: the next request costs little
//	cold       the next request opens a connection, which costs processor time
//	slow       an answer took longer than SlowAfter, or a request in flight does
//
// Next goes round the classes, in a class round the organizations, and in an organization round its lanes. An
// organization with the most lanes, or the most waiting deliveries, gets no more turns than others.
//
// Six things are scarce. Each is a pool, divided between organizations by one rule: an organization may use up to
// twice what is free, and the last sixteenth is for organizations that use nothing. A single organization gets two
// thirds; when another one comes there is room at once, without taking any back.
//
//	requests  InFlight    requests in flight; those of slow lanes count in the pool, not in an organization's part
//	slow      InFlight/2  requests in flight of slow lanes
//	opening   Opening     requests that open a connection, each for openingFor at most
//	fresh     Queued      fresh deliveries that wait
//	claimed   Queued/4    claimed deliveries that wait or are in flight
//	memory    Bytes       bodies of more than SmallBody bytes; each counts once for each organization that has it
//
// Admit keeps room for a fresh delivery while it is recorded, and Room promises some to what a claim takes: both are
// asked once. A delivery that does not fit is refused by Admit, or by Offer if nothing was promised, or returned by
// Tick: it stays in the read model, and a later claim finds it. After a lane refused a fresh delivery, older ones wait
// for it in the read model: until a claim finds no more for it, fresh ones only keep it from running dry, and all go in
// the order in which they came.
package schedule
