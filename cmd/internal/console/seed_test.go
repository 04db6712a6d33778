package console_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// random returns a random source. CARILLON_TEST_SEED sets a logged seed again.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if set := os.Getenv("CARILLON_TEST_SEED"); set != "" {
		var err error
		if seed, err = strconv.ParseUint(set, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("CARILLON_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not a secret
}
