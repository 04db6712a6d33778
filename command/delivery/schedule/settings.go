package schedule

import "time"

// Settings bound the work of a scheduler.
type Settings struct {
	InFlight  int           // requests at one time
	PerLane   int           // of those to one destination
	Opening   int           // requests at one time that open a connection
	Queued    int           // fresh deliveries that wait; a fourth as many claimed ones
	Bytes     int           // memory of bodies that wait or are in flight
	SlowAfter time.Duration // an answer that takes longer makes a lane slow
}

const (
	startWindow = 4 // requests at one time to a destination that has not answered
	slowWindow  = 4 // the same to a slow one, at most
	// openingFor is how long a request that opens a connection keeps others from it: the processor time is spent by
	// then, or it waits for the network.
	openingFor = 25 * time.Millisecond
	// connectedFor is how long a connection is taken to be idle. Receivers close them after a minute or later.
	connectedFor = 30 * time.Second

	maxLaneQueue   = 2048            // deliveries that wait in one lane
	startLaneQueue = 256             // the same as long as its pace is not known
	laneQueueTime  = 8 * time.Second // no more wait than are sent in this time, so that leases do not end in memory

	// How long an empty lane is remembered, and an empty one that is slow or has older deliveries in the read model.
	laneMemory, slowLaneMemory = connectedFor, 10 * time.Minute
	sweepEvery                 = 10 * time.Second
)
