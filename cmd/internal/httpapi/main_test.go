package httpapi_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain has fewer tries made of what is drawn by chance beside the race detector: make race makes all of them without it.
func TestMain(m *testing.M) {
	if raced {
		_ = flag.Set("rapid.checks", "20")
	}
	os.Exit(m.Run())
}
