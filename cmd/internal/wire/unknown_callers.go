package wire

import (
	"time"

	"carillon/command/sampling"
)

// unknownCallerLines bounds the lines of requests without a valid key, or beyond a rate.
var unknownCallerLines = sampling.Rule{
	Lines: 50,
	Per:   time.Second,
	Count: "leftOut",
}

// unidentifiedCaller reports whether a request was refused before its caller was known, or because of a rate.
func unidentifiedCaller(rec *record) bool {
	return rec != nil && rec.failure != nil &&
		(rec.anybody || rec.failure.Kind == Unauthenticated || rec.failure.Kind == RateLimited)
}
