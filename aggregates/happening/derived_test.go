package happening

import (
	"testing"

	"github.com/google/uuid"
)

func TestDerived_isVersion5(t *testing.T) {
	t.Parallel()
	long := string(make([]byte, 300))
	for _, parts := range [][]string{{"a"}, {"a", "bc"}, {"ab", "c"}, {"", ""}, {long, long}} {
		name := parts[0]
		for _, part := range parts[1:] {
			name += "\x1f" + part
		}
		if got, want := derived(parts...), uuid.NewSHA1(detailsNamespace, []byte(name)); got != want {
			t.Errorf("%d parts: %s, want %s", len(parts), got, want)
		}
	}
}
