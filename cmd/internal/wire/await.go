package wire

import (
	"context"
	"log/slog"
	"time"
)

// AwaitLimit bounds how long an acknowledged write waits until it can be read. After that it is answered all the same.
const AwaitLimit = 2 * time.Second

// Await waits until readers see a write, up to AwaitLimit, and reports whether they do. If not, the log of the request
// notes it.
func Await(ctx context.Context, readable func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, AwaitLimit)
	defer cancel()
	there := readable(ctx)
	if !there {
		Note(ctx, slog.Bool("notYetReadable", true))
	}
	return there
}
