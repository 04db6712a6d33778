package notices

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
)

// Of many in a minute few are recorded, and none is forgotten: the notice of the next minute counts the rest.
func TestNoticesPacedBeforeRecording(t *testing.T) {
	t.Parallel()
	n := New(nil, &eventstore.ProcessState{}, "")
	recorded, waiting := 0, 0
	noon, at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), func(at time.Time) (s dispatch.Scheduled) {
		p, record := n.pace("k", uuid.New(), at, &s)
		if record {
			recorded, waiting = recorded+1, p.Count
		}
		return s
	}
	for i := range 2000 {
		if s := at(noon.Add(time.Duration(i) * time.Millisecond)); i > 0 && s.NotBefore.IsZero() && s.Supersedes != uuid.Nil {
			t.Fatalf("notice %d: %+v", i, s)
		}
	}
	assert.True(t, recorded <= 40 && waiting >= 1999*4/5, "%d are recorded, the last one counts %d", recorded, waiting)
	counted := 1 + waiting
	next := at(noon.Add(noticeInterval + time.Second))
	assert.True(t, next.NotBefore.Equal(noon.Add(2*noticeInterval)) && next.Supersedes == uuid.Nil,
		"of the next minute: %+v", next)
	assert.Equal(t, counted+waiting, 2001, "2001 happened, notices count")
}
