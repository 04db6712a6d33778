package store

import "hash/maphash"

// recentIDs remembers the positions of the newest events, so that most repetitions of appends without an exact
// expectation are recognized. It is best effort, lost on restart: callers that need certainty give the expected
// revision.
type recentIDs struct {
	places map[recentID]uint64 // the first revision that has it
	order  []recentID          // circular
	next   int
	seed   maphash.Seed
	// streams has the only stream that each id is remembered for. nil means that each is remembered for all its streams.
	streams map[EventID]uint64
}

// recentID is an event's id in a stream: two streams may have the same. The stream is its hash, so that collections of
// the heap need not look at any of this.
type recentID struct {
	id     EventID
	stream uint64
}

// recentEvents is a few seconds of writing at full speed, and a few MB.
const recentEvents = 32 << 10

func newRecentIDs(oneStream bool) *recentIDs {
	r := &recentIDs{places: make(map[recentID]uint64), order: make([]recentID, recentEvents), seed: maphash.MakeSeed()}
	if oneStream {
		r.streams = map[EventID]uint64{}
	}
	return r
}

// add takes in the events that a stream has got from a revision on.
func (r *recentIDs) add(events []Proposed, stream string, base uint64) {
	hash := maphash.String(r.seed, stream)
	for i, event := range events {
		key := recentID{event.id, hash}
		if r.streams != nil {
			if other, ok := r.streams[event.id]; ok && other != hash {
				delete(r.places, recentID{event.id, other})
			}
			r.streams[event.id] = hash
		}
		if _, ok := r.places[key]; ok {
			continue // the first place counts
		}
		delete(r.places, r.order[r.next])
		r.order[r.next] = key
		r.next = (r.next + 1) % len(r.order)
		r.places[key] = base + uint64(i) // #nosec G115 -- not negative
	}
}

// all reports whether a stream has got all of these events, in whatever order, and returns the revision of the last.
func (r *recentIDs) all(events []Proposed, stream string) (revision uint64, ok bool) {
	hash := maphash.String(r.seed, stream)
	for _, event := range events {
		if revision, ok = r.places[recentID{event.id, hash}]; !ok {
			return 0, false
		}
	}
	return revision, ok
}

// find returns the revision at which a stream has got the first of these events.
func (r *recentIDs) find(events []Proposed, stream string) (revision uint64, ok bool) {
	if len(events) == 0 {
		return 0, false
	}
	revision, ok = r.places[recentID{events[0].id, maphash.String(r.seed, stream)}]
	return revision, ok
}
