package projections

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pipelined is a transaction in as few round trips as its reads need: writes are sent with the next read, at the latest
// with the commit. So an error of a write shows at the next read, or at the commit.
type pipelined struct {
	pgx.Tx // nil: read models use only the methods below

	conn  *pgx.Conn
	ahead []*pgx.QueuedQuery // yet to be sent
	due   time.Time          // see Due; zero: nothing
}

// pipeline begins a transaction with a statement. That takes a round trip: Postgres can't prepare what comes next
// before it knows the schema.
func (w *writer) pipeline(ctx context.Context, conn *pgx.Conn, first string, arguments ...any) (*pipelined, error) {
	var begin pgx.Batch
	begin.Queue("BEGIN")
	begin.Queue(scoped, w.path())
	begin.Queue(first, arguments...)
	return &pipelined{conn: conn}, conn.SendBatch(ctx, &begin).Close()
}

// SendBatch implements pgx.Tx. A batch of which nothing is read is kept back when it is closed.
func (t *pipelined) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	reads := func(q *pgx.QueuedQuery) bool { return q.Fn != nil }
	if slices.ContainsFunc(batch.QueuedQueries, reads) {
		return t.send(ctx, batch)
	}
	return &deferredBatch{tx: t, batch: batch, send: func() pgx.BatchResults { return t.send(ctx, batch) }}
}

// send sends the deferred batches and a batch, and returns the results of the latter.
func (t *pipelined) send(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	ahead := t.ahead
	t.ahead = nil
	results := t.conn.SendBatch(ctx, &pgx.Batch{QueuedQueries: slices.Concat(ahead, batch.QueuedQueries)})
	for range ahead {
		if _, err := results.Exec(); err != nil {
			break // which every other result reports too
		}
	}
	return results
}

// flush sends what is ahead, before a statement that is sent alone.
func (t *pipelined) flush(ctx context.Context) error {
	if len(t.ahead) == 0 {
		return nil
	}
	return t.send(ctx, &pgx.Batch{}).Close()
}

// Exec implements pgx.Tx.
func (t *pipelined) Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) {
	if err := t.flush(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.conn.Exec(ctx, sql, arguments...)
}

// Query implements pgx.Tx.
func (t *pipelined) Query(ctx context.Context, sql string, arguments ...any) (pgx.Rows, error) {
	if err := t.flush(ctx); err != nil {
		return nil, err
	}
	return t.conn.Query(ctx, sql, arguments...)
}

// QueryRow implements pgx.Tx.
func (t *pipelined) QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row {
	if err := t.flush(ctx); err != nil {
		return failedRow{err}
	}
	return t.conn.QueryRow(ctx, sql, arguments...)
}

// CopyFrom implements pgx.Tx.
func (t *pipelined) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource,
) (int64, error) {
	if err := t.flush(ctx); err != nil {
		return 0, err
	}
	return t.conn.CopyFrom(ctx, table, columns, rows)
}

// Conn implements pgx.Tx. Statements that go round the transaction would come before what it has kept back.
func (t *pipelined) Conn() *pgx.Conn { return nil }

// Commit implements pgx.Tx.
func (t *pipelined) Commit(ctx context.Context) error {
	var end pgx.Batch
	end.Queue("COMMIT")
	return t.send(ctx, &end).Close()
}

// Rollback implements pgx.Tx.
func (t *pipelined) Rollback(ctx context.Context) error {
	const none = 'I' // no transaction is in progress, as far as Postgres is concerned
	t.ahead = nil
	if t.conn.IsClosed() || t.conn.PgConn().TxStatus() == none {
		return nil
	}
	if _, err := t.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// deferredBatch are the results of a batch that is not sent yet.
type deferredBatch struct {
	tx    *pipelined
	batch *pgx.Batch
	send  func() pgx.BatchResults
	sent  pgx.BatchResults // once a result is asked for
}

func (k *deferredBatch) now() pgx.BatchResults {
	if k.sent == nil {
		k.sent = k.send()
	}
	return k.sent
}

// Exec implements pgx.BatchResults.
func (k *deferredBatch) Exec() (pgconn.CommandTag, error) { return k.now().Exec() }

// Query implements pgx.BatchResults.
func (k *deferredBatch) Query() (pgx.Rows, error) { return k.now().Query() }

// QueryRow implements pgx.BatchResults.
func (k *deferredBatch) QueryRow() pgx.Row { return k.now().QueryRow() }

// Tx implements pgx.BatchResults.
func (k *deferredBatch) Tx() pgx.Tx { return nil }

// Close implements pgx.BatchResults.
func (k *deferredBatch) Close() error {
	if k.sent != nil {
		return k.sent.Close()
	}
	k.tx.ahead = append(k.tx.ahead, k.batch.QueuedQueries...)
	k.sent = emptyResults{}
	return nil
}

// nothing are the results of a batch that was sent with others.
type emptyResults struct{ pgx.BatchResults }

// Close implements pgx.BatchResults.
func (emptyResults) Close() error { return nil }

// failedRow is a row that can't be read.
type failedRow struct{ err error }

// Scan implements pgx.Row.
func (r failedRow) Scan(...any) error { return r.err }
