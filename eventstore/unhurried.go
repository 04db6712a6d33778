package eventstore

import (
	"context"
	"time"
)

type unhurried struct{}

// Unhurried says of the appends of a context that each may wait for others, for a time at most, so that they go to the
// disk together: nobody is told of them before anyway.
func Unhurried(ctx context.Context, atMost time.Duration) context.Context {
	return context.WithValue(ctx, unhurried{}, atMost)
}

// MayWait is for how long an append may wait for others; 0 where nothing was said.
func MayWait(ctx context.Context) time.Duration {
	atMost, _ := ctx.Value(unhurried{}).(time.Duration)
	return atMost
}
