//go:build nightly

package app_test

import (
	"fmt"
	"net/http"
	"testing"
)

// TestHostileKillsInADeletion: an organization whose deletion is cut off by kills is deleted to its end, by itself.
func TestHostileKillsInADeletion(t *testing.T) {
	const owned = 40
	s := newSeveral(t, 1, false)
	if got := s.destinations(owned); got[http.StatusCreated] != owned {
		t.Fatalf("destinations are answered %v", got)
	}
	for i := range owned {
		if status := s.ask(http.MethodPost, s.apis[0]+"/feeds/events", map[string]any{
			"name":        fmt.Sprint(i),
			"description": "d",
		}, nil); status != http.StatusCreated {
			t.Fatalf("feed: %d", status)
		}
	}
	left := func() int {
		return s.count("SELECT (SELECT count(*) FROM destinations.destinations) + (SELECT count(*) " +
			"FROM feeds.feeds) + (SELECT count(*) FROM carillon.data_keys)")
	}
	s.eventually("not all is there", func() bool { return left() == 3*owned })
	if status := s.ask(http.MethodDelete, s.admins[0]+"/admin/organizations/"+organization.String(), nil,
		nil); status != http.StatusOK {
		t.Fatalf("deletion: %d", status)
	}
	var seen []int
	for range 3 {
		s.servers[0].kill()
		seen = append(seen, left())
		s.servers[0].start()
		before := seen[len(seen)-1]
		s.eventually("the deletion does not go on", func() bool { n := left(); return n == 0 || n >= 0 && n < before })
	}
	s.eventually("the deletion does not come to its end", func() bool { return left() == 0 })
	t.Logf("of %d were left at the kills: %v", 3*owned, seen)
}
