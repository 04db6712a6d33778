package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/projections/sessionlock"
)

const (
	awaited   = "carillon_awaited" // the channel of Postgres on which processes say what they wait for
	maxUrgent = 2 * time.Second    // no caller waits for longer
)

// Listen hurries consumers of this process that another process waits for, until the context ends. Without it they wait
// for as long as a batch lingers, or until a process manager saves.
func (p *Progress) Listen(ctx context.Context, locks *sessionlock.Locks) {
	locks.Listen(ctx, awaited, func(payload string) {
		var (
			name            string
			commit, prepare int64
		)
		if _, err := fmt.Sscan(payload, &name, &commit, &prepare); err != nil {
			return // of another version
		}
		if heard := p.notified(name); heard != nil {
			heard()
		} else if _, here, _ := p.get(name); here {
			go panics.Func("progress", func() { p.waitAndSave(ctx, position(commit, prepare), name) })()
		}
	})
}

func (p *Progress) waitAndSave(ctx context.Context, to eventstore.Position, name string) {
	ctx, cancel := context.WithTimeout(ctx, maxUrgent)
	defer cancel()
	if p.Await(ctx, to, name) {
		p.save(name) // who waits elsewhere goes by the checkpoint
	}
}

// OnNotified calls a function whenever a process, this one included, announces a name to the others. It must wait for
// nothing.
func (p *Progress) OnNotified(name string, heard func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard[name] = heard
}

func (p *Progress) notified(name string) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard[name]
}

// QueueTell announces a name to all processes when the batch is committed.
func (p *Progress) QueueTell(batch *pgx.Batch, name string) {
	batch.Queue("SELECT pg_notify($1, $2)", awaited, name+" 0 0")
}

// ask notifies the process that runs a consumer that this one waits for it. If that fails it waits a little longer.
func (p *Progress) ask(ctx context.Context, to eventstore.Position, name string) {
	_, _ = p.pool.Exec(ctx, "SELECT pg_notify($1, $2)", awaited, fmt.Sprint(name, " ", to.Commit, " ", to.Prepare))
}
