// Package schedule decides which delivery is sent next. It is pure: it starts no goroutine, reads no clock and does no I/O.
// Each call takes the time; a caller that wants to be called again is told when.
//
//	            Offer                    Next                             Done
//	fresh   ──▶ ┌───────── lane A1 ──┐
//	claimed ──▶ │ fresh │ claimed    ├─┐ organization A ┐
//	            ├───────── lane A2 ──┤ │   lanes take   │ organizations    ┌─ connected ─┐
//	            │       │            ├─┘   turns        ├──── take turns ─▶├─ cold ──────┤─▶ requests in flight
//	            ├───────── lane B1 ──┤                  │    in each class └─ slow ──────┘
//	            │       │            ├── organization B ┘
//	            └────────────────────┘
//
// A lane is the queue of one destination. Fresh deliveries, which the dispatcher offers, and claimed ones, which come from
// the read model, take turns in it. It has a window of requests in flight, which begins at startWindow, grows by one with
// each answer, up to PerLane, and is halved by a failure, once for the requests of one window. Retry-After lets it rest;
// what waited is sent afterwards at the pace that the receiver took before.
//
// A lane is in one of three classes:
//
//	connected  a connection to its destination is idle: the next request costs little
//	cold       the next request opens a connection, which costs processor time
//	slow       an answer took longer than SlowAfter, or a request in flight does
//
// Next goes round the classes, in a class round the organizations, and in an organization round its lanes. So whoever has
// the most lanes, or the most that waits, gets no more turns than others.
//
// Six things are scarce. Each is a pool, divided between organizations by one rule: an organization may use up to twice
// what is free, and the last sixteenth is for organizations that use nothing. One that is alone gets two thirds; when
// another one comes there is room at once, and nothing has to be taken from anybody.
//
//	requests  InFlight    requests in flight; those of slow lanes count in the pool, not in an organization's part
//	slow      InFlight/2  requests in flight of slow lanes
//	opening   Opening     requests that open a connection, each for openingFor at most
//	fresh     Queued      fresh deliveries that wait
//	claimed   Queued/4    claimed deliveries that wait or are in flight
//	memory    Bytes       bodies of more than SmallBody bytes; each counts once for each organization that has it
//
// What does not fit is refused by Offer, or returned by Tick: it stays in the read model, where a claim finds it again.
// Room says what a claim may take. After a lane refused a fresh delivery, older ones wait for it in the read model: until a
// claim finds no more for it, fresh ones only keep it from running dry, and all go in the order in which they came.
package schedule
