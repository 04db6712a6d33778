package egress

import (
	"context"
	"errors"
	"sync"
	"time"
)

// net/http opens a connection for each request that finds none idle, and finishes it when the request has got another one
// meanwhile. So of many requests to one address few open connections at one time; of the others most get one that was used
// before, and then open none.
const (
	openingMost = 8
	// openingHeld is how long one that opens keeps others waiting, at most: an address may be of many machines, of which one
	// hangs.
	openingHeld = 10 * time.Millisecond
)

// errServed ends the opening of a connection that nobody waits for any more.
var errServed = errors.New("the request has another connection")

// opening are the connections that are being opened, by address. It keeps nothing of addresses where none is.
type opening struct {
	mu sync.Mutex
	at map[string]*entrance
}

type entrance struct {
	inside int // openingMost at most
	queue  []*turn
}

type turn struct {
	come   chan struct{} // closed when it has a place
	has    bool
	gaveUp bool
}

// enter waits for a place to open a connection to an address, unless the request no longer wants one. leave is to be called
// when the connection is open, or has failed; all calls but the first do nothing.
func (o *opening) enter(ctx context.Context, address string, request *Handshake) (leave func(), err error) {
	served := request.servedElse()
	if served == nil {
		return nil, errServed
	}
	t := o.ask(address)
	select {
	case <-t.come:
	case <-served:
		err = errServed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		o.giveUp(address, t)
		return nil, err
	}
	held := time.AfterFunc(openingHeld, func() { o.leave(address) })
	return func() {
		if held.Stop() {
			o.leave(address)
		}
	}, nil
}

func (o *opening) ask(address string) *turn {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := &turn{come: make(chan struct{})}
	e := o.at[address]
	if e == nil {
		e = &entrance{}
		o.at[address] = e
	}
	if e.inside < openingMost {
		e.inside++
		t.give()
	} else {
		e.queue = append(e.queue, t)
	}
	return t
}

func (o *opening) giveUp(address string, t *turn) {
	o.mu.Lock()
	has := t.has
	t.gaveUp = true
	o.mu.Unlock()
	if has { // just now
		o.leave(address)
	}
}

// leave gives a place to whoever has waited longest.
func (o *opening) leave(address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.at[address]
	for len(e.queue) > 0 {
		next := e.queue[0]
		e.queue = e.queue[1:]
		if !next.gaveUp {
			next.give()
			return
		}
	}
	if e.inside--; e.inside == 0 {
		delete(o.at, address)
	}
}

func (t *turn) give() {
	t.has = true
	close(t.come)
}
