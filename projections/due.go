package projections

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/projections/sessionlock"
)

// due is the channel of Postgres on which processes say when something can be claimed that could not before.
const due = "carillon_due"

// Due lets a read model announce when the first of the deliveries can be claimed that its transaction makes claimable.
// All processes get it once the transaction is committed: a notification inside of it would take a lock that all
// commits of the server share.
func Due(tx pgx.Tx, at time.Time) {
	if t, ok := tx.(*pipelined); ok && (t.due.IsZero() || at.Before(t.due)) {
		t.due = at
	}
}

// NotifyDue notifies all processes that something can be claimed from a time on.
func NotifyDue(locks *sessionlock.Locks, at time.Time) {
	payload := ""
	if now, known := locks.Now(); known && at.After(now) {
		payload = strconv.FormatInt(at.UnixMicro(), 10)
	}
	locks.Notify(due, payload)
}

// ListenDue calls a function with the times that processes announce, until the context ends. The zero time means that
// it is not known what became due meanwhile, or that it is due now.
func ListenDue(ctx context.Context, locks *sessionlock.Locks, heard func(at time.Time)) {
	locks.Listen(ctx, due, func(payload string) {
		if at, err := strconv.ParseInt(payload, 10, 64); err == nil {
			heard(time.UnixMicro(at))
			return
		}
		heard(time.Time{})
	})
}
