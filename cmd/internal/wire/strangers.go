package wire

import (
	"time"

	"carillon/command/sampling"
)

// strangerLines bounds the lines of requests without a valid key, or beyond a rate.
var strangerLines = sampling.Rule{
	Lines: 50,
	Per:   time.Second,
	Count: "leftOut",
}

// stranger reports whether a request was refused before its caller was known, or because of a rate.
func stranger(rec *record) bool {
	return rec != nil && rec.failure != nil &&
		(rec.anybody || rec.failure.Kind == Unauthenticated || rec.failure.Kind == RateLimited)
}
