package query

import (
	"container/list"
	"context"
	"sync"
)

// remembered is a cached answer. It holds while the feed does not change, which the caller checks, and until time
// passes an instant that changes the answer.
type remembered interface {
	holds(in ItemsQuery) bool
	weight() int
	// limits returns the maximum number of cached answers of a kind, and the maximum of their total weight.
	limits() (ofKind, budget int)
}

// memory caches answers by the part of their queries that is common to a kind. The least recently used answer is
// evicted first. The zero value is ready to use.
type memory[K comparable, V remembered] struct {
	mu     sync.Mutex
	kinds  map[K][]*list.Element // newest last
	recent list.List             // of entry[K, V], most recently used in front
	used   int
	making map[K]chan struct{}
}

type entry[K comparable, V remembered] struct {
	kind   K
	answer V
}

// answered returns an answer that holds for a query. The lock must be held.
func (m *memory[K, V]) answered(kind K, in ItemsQuery) (answer V, found bool) {
	for i := len(m.kinds[kind]) - 1; i >= 0; i-- {
		element := m.kinds[kind][i]
		//nolint:errcheck,forcetypeassert // nothing else is in the list
		if e := element.Value.(entry[K, V]); e.answer.holds(in) {
			m.recent.MoveToFront(element)
			return e.answer, true
		}
	}
	return answer, false
}

// get returns an answer that holds for a query, or the result of read. It first waits for an answer of the kind that
// is being made: concurrent queries differ by microseconds only.
func (m *memory[K, V]) get(ctx context.Context, kind K, in ItemsQuery, read func(known []V) (V, error)) (
	answer V, fresh bool, err error) {
	for waited := false; ; waited = true {
		m.mu.Lock()
		if answer, found := m.answered(kind, in); found {
			m.mu.Unlock()
			return answer, false, nil
		}
		others := m.making[kind]
		if others == nil || waited { // the other answer is of another range
			break
		}
		m.mu.Unlock()
		select {
		case <-others:
		case <-ctx.Done():
			return answer, false, ctx.Err()
		}
	}
	done := m.begin(kind)
	known := m.known(kind)
	m.mu.Unlock()
	defer done()
	if answer, err = read(known); err == nil {
		m.put(kind, answer)
	}
	return answer, true, err
}

// begin makes other callers wait for an answer of a kind until done is called. The lock must be held.
func (m *memory[K, V]) begin(kind K) (done func()) {
	if m.making[kind] != nil {
		return func() {} // they already wait for another caller
	}
	if m.making == nil {
		m.making = map[K]chan struct{}{}
	}
	made := make(chan struct{})
	m.making[kind] = made
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.making, kind)
		close(made)
	}
}

// known returns the answers of a kind, newest first. The lock must be held.
func (m *memory[K, V]) known(kind K) []V {
	all := make([]V, 0, len(m.kinds[kind]))
	for i := len(m.kinds[kind]) - 1; i >= 0; i-- {
		all = append(all, m.kinds[kind][i].Value.(entry[K, V]).answer) //nolint:errcheck,forcetypeassert // see look
	}
	return all
}

// put caches an answer, unless it is too heavy.
func (m *memory[K, V]) put(kind K, answer V) {
	ofKind, budget := answer.limits()
	if answer.weight() > budget {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kinds == nil {
		m.kinds = map[K][]*list.Element{}
	}
	if len(m.kinds[kind]) == ofKind {
		m.remove(m.kinds[kind][0])
	}
	m.kinds[kind] = append(m.kinds[kind], m.recent.PushFront(entry[K, V]{kind, answer}))
	for m.used += answer.weight(); m.used > budget; {
		m.remove(m.recent.Back())
	}
}

// forget evicts the answers of a kind that are no longer true.
func (m *memory[K, V]) forget(kind K, untrue func(V) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, element := range append([]*list.Element(nil), m.kinds[kind]...) {
		if untrue(element.Value.(entry[K, V]).answer) { //nolint:errcheck,forcetypeassert // see look
			m.remove(element)
		}
	}
}

// remove removes an entry. The lock must be held.
func (m *memory[K, V]) remove(element *list.Element) {
	e := m.recent.Remove(element).(entry[K, V]) //nolint:errcheck,forcetypeassert // see look
	m.used -= e.answer.weight()
	rest := m.kinds[e.kind]
	for i := range rest {
		if rest[i] == element {
			rest = append(rest[:i:i], rest[i+1:]...)
			break
		}
	}
	if m.kinds[e.kind] = rest; len(rest) == 0 {
		delete(m.kinds, e.kind)
	}
}
