package store

// recentIDs remembers where the last appends without an exact expectation began, so that most of their repetitions
// are recognized. It is a courtesy, lost on restart: who needs certainty gives the expected revision.
type recentIDs struct {
	starts map[EventID]recentStart
	order  []EventID // circular
	next   int
}

type recentStart struct {
	stream   string
	revision uint64
}

const recentAppends = 4096

func newRecentIDs() *recentIDs {
	return &recentIDs{starts: make(map[EventID]recentStart), order: make([]EventID, recentAppends)}
}

func (r *recentIDs) add(id EventID, stream string, revision uint64) {
	if _, ok := r.starts[id]; !ok {
		delete(r.starts, r.order[r.next])
		r.order[r.next] = id
		r.next = (r.next + 1) % len(r.order)
	}
	r.starts[id] = recentStart{stream, revision}
}

func (r *recentIDs) find(events []Proposed, stream string) (revision uint64, ok bool) {
	if len(events) == 0 {
		return 0, false
	}
	start, ok := r.starts[events[0].id]
	return start.revision, ok && start.stream == stream
}
