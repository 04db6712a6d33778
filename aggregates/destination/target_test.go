package destination_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
)

var hook = uuid.MustParse("55555555-5555-4555-8555-555555555555")

// targetOf folds the events of a destination.
func targetOf(events ...destination.Event) *destination.Target {
	var state destination.State
	for _, event := range events {
		state = destination.Aggregate.Evolve(state, event)
	}
	return state.Target(hook)
}

func TestTarget_followsItsDestination(t *testing.T) {
	t.Parallel()
	begun := func(change func(*destination.Target)) *destination.Target {
		target := destination.Target{
			ID:           hook,
			Organization: org,
			Enabled:      true,
			URL:          shown,
			Address:      address.Data,
			Headers:      []byte("sealed"),
			Secrets:      []destination.SealedSecret{{ID: first, Sealed: []byte("s1")}},
		}
		change(&target)
		return &target
	}
	revised := destination.Revised{Settings: destination.Settings{URL: "https://example.org/new"}, At: noon}
	expired := destination.SecretExpired{SecretID: first, At: noon.Add(time.Hour)}
	same := func(*destination.Target) {}
	off := func(t *destination.Target) { t.Enabled = false }
	tests := map[string]struct {
		events []destination.Event
		want   *destination.Target
	}{
		"created": {nil, begun(same)},
		"revised": {[]destination.Event{revised}, begun(func(t *destination.Target) {
			t.URL, t.Address, t.Headers = "https://example.org/new", nil, nil
		})},
		"disabled":      {[]destination.Event{destination.Disabled{At: noon}}, begun(off)},
		"auto-disabled": {[]destination.Event{destination.AutoDisabled{At: noon}}, begun(off)},
		"enabled again": {[]destination.Event{destination.Disabled{At: noon}, destination.Enabled{At: noon}}, begun(same)},
		"rotated": {[]destination.Event{rotated}, begun(func(t *destination.Target) {
			t.Secrets[0].ExpiresAt = noon.Add(24 * time.Hour)
			t.Secrets = append(t.Secrets, destination.SealedSecret{ID: next, Sealed: []byte("s2")})
		})},
		"expired": {[]destination.Event{rotated, expired}, begun(func(t *destination.Target) {
			t.Secrets[0].ExpiresAt = noon.Add(time.Hour)
			t.Secrets = append(t.Secrets, destination.SealedSecret{ID: next, Sealed: []byte("s2")})
		})},
		"deleted": {[]destination.Event{destination.Deleted{At: noon}}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := targetOf(append([]destination.Event{created, minted}, tt.events...)...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
