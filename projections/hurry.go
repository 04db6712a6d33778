package projections

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

const (
	awaited      = "carillon_awaited" // the channel of Postgres on which processes say what they wait for
	hurryAtMost  = 2 * time.Second    // nobody waits for longer
	listenPause  = time.Second        // before a connection that was lost is opened again
	listenerName = "carillon listens"
)

// Listen hurries consumers of this process that another process waits for, until the context ends. Without it they wait
// for as long as a batch lingers, or until a process manager saves.
func (p *Progress) Listen(ctx context.Context, log *slog.Logger) {
	for ctx.Err() == nil {
		if err := p.listen(ctx); err != nil && ctx.Err() == nil {
			log.Warn("other processes can't say which read models they wait for: what they read may be late", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(listenPause):
		}
	}
}

func (p *Progress) listen(ctx context.Context) error {
	config := p.pool.Config().ConnConfig.Copy()
	config.RuntimeParams["application_name"] = listenerName
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+awaited); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		var (
			name            string
			commit, prepare int64
		)
		if _, err := fmt.Sscan(notification.Payload, &name, &commit, &prepare); err != nil {
			continue // of another version
		}
		if heard := p.hears(name); heard != nil {
			heard()
		} else if _, here, _ := p.get(name); here {
			go p.hurryTo(ctx, position(commit, prepare), name)
		}
	}
}

func (p *Progress) hurryTo(ctx context.Context, to eventstore.Position, name string) {
	ctx, cancel := context.WithTimeout(ctx, hurryAtMost)
	defer cancel()
	if p.Await(ctx, to, name) {
		p.save(name) // who waits elsewhere goes by the checkpoint
	}
}

// Hear calls a function whenever a process tells the others a name, this process included. It must not wait for anything.
func (p *Progress) Hear(name string, heard func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard[name] = heard
}

func (p *Progress) hears(name string) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard[name]
}

// QueueTell tells a name to all processes when the batch is committed.
func (p *Progress) QueueTell(batch *pgx.Batch, name string) {
	batch.Queue("SELECT pg_notify($1, $2)", awaited, name+" 0 0")
}

// ask tells the process that runs a consumer that this one waits for it. Where that fails it waits a little longer.
func (p *Progress) ask(ctx context.Context, to eventstore.Position, name string) {
	_, _ = p.pool.Exec(ctx, "SELECT pg_notify($1, $2)", awaited, fmt.Sprint(name, " ", to.Commit, " ", to.Prepare))
}
