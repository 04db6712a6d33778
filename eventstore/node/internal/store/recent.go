package store

// recentIDs remembers where the newest events are, so that most repetitions of appends without an exact expectation are
// recognized. It is a courtesy, lost on restart: who needs certainty gives the expected revision.
type recentIDs struct {
	places map[EventID]recentPlace
	order  []EventID // circular
	next   int
}

type recentPlace struct {
	stream   string
	revision uint64
}

// recentEvents is a few seconds of writing at full speed, and a few MB.
const recentEvents = 32 << 10

func newRecentIDs() *recentIDs {
	return &recentIDs{places: make(map[EventID]recentPlace), order: make([]EventID, recentEvents)}
}

// add takes in the events that a stream has got from a revision on.
func (r *recentIDs) add(events []Proposed, stream string, base uint64) {
	for i, event := range events {
		if _, ok := r.places[event.id]; !ok {
			delete(r.places, r.order[r.next])
			r.order[r.next] = event.id
			r.next = (r.next + 1) % len(r.order)
		}
		r.places[event.id] = recentPlace{stream, base + uint64(i)} // #nosec G115 -- not negative
	}
}

// find returns the revision at which a stream has got the first of these events.
func (r *recentIDs) find(events []Proposed, stream string) (revision uint64, ok bool) {
	if len(events) == 0 {
		return 0, false
	}
	place, ok := r.places[events[0].id]
	return place.revision, ok && place.stream == stream
}
