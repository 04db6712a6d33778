package store

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The position is on the disk a second after an event at the latest, whether or not others follow.
func TestAcknowledgedPositionBecomesDurable(t *testing.T) {
	t.Parallel()
	fs := newTroubled()
	s := openIn(t, fs)
	position := mustAppend(t, s, "s", 3).Position
	deadline := time.Now().Add(patience)
	for {
		said, known, err := readAcknowledgement(fs.CrashClone(vfs.CrashCloneCfg{}), "node")
		if err != nil || !known || time.Now().After(deadline) {
			t.Fatalf("%+v, %v, %v", said, known, err)
		}
		if said.position == position {
			break
		}
		<-time.After(time.Millisecond)
	}
	mustClose(t, s)
}
