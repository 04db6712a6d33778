package wire

import (
	"context"
	"log/slog"
	"time"

	"carillon/eventstore"
)

// AwaitCascade waits until what follows from a deletion can be read, for a limited time, and notes in the log of the
// request if it can't be read yet. Nothing is waited for if cascaded is nil.
func AwaitCascade(
	ctx context.Context, cascaded func(context.Context, eventstore.Position) bool, to eventstore.Position,
	limit time.Duration,
) {
	if cascaded == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if !cascaded(ctx, to) {
		Note(ctx, slog.Bool("notYetReadable", true))
	}
}
