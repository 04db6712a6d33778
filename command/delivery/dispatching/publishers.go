package dispatching

import "github.com/google/uuid"

// concurrentAppends bounds the dispatches in flight into the store.
const concurrentAppends = 128

// publishers are the organizations that have fan-outs here, and take turns.
type publishers struct {
	of      map[uuid.UUID]*publisher
	turns   []*publisher // those of which something waits, the next one first
	running int
}

type publisher struct {
	id      uuid.UUID
	queue   []*fanOut
	running int
	bytes   int
}

// come notes that there is a fan-out of an organization.
func (ps *publishers) come(id uuid.UUID) *publisher {
	p := ps.of[id]
	if p == nil {
		p = &publisher{id: id}
		ps.of[id] = p
	}
	return p
}

// leave forgets an organization of which nothing is here any more.
func (ps *publishers) leave(p *publisher) {
	if p.running == 0 && p.bytes == 0 {
		delete(ps.of, p.id)
	}
}

// wait puts a fan-out behind those of its organization.
func (ps *publishers) wait(f *fanOut) {
	if len(f.by.queue) == 0 {
		ps.turns = append(ps.turns, f.by)
	}
	f.by.queue = append(f.by.queue, f)
}

// next takes the next fan-out in turn; nil if none may begin. An organization's first in flight needs no free
// place, while there are not twice as many in flight.
func (ps *publishers) next() *fanOut {
	if ps.running >= 2*concurrentAppends {
		return nil
	}
	for i, p := range ps.turns {
		if ps.running >= concurrentAppends && p.running > 0 {
			continue
		}
		ps.turns = append(ps.turns[:i], ps.turns[i+1:]...)
		f := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		if len(p.queue) > 0 {
			ps.turns = append(ps.turns, p)
		}
		p.running++
		ps.running++
		return f
	}
	return nil
}

// end notes that an append has ended.
func (ps *publishers) end(f *fanOut) {
	f.by.running--
	ps.running--
}
