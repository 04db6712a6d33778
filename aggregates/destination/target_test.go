package destination_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/eventstore"
)

var hook = uuid.MustParse("55555555-5555-4555-8555-555555555555")

// targetOf folds the events of a new destination.
func targetOf(events ...destination.Event) *destination.Target {
	var target *destination.Target
	for i, event := range events {
		target = target.After(hook, eventstore.Revision(i), event)
	}
	return target
}

func TestTargetFollowsItsDestination(t *testing.T) {
	t.Parallel()
	revised := destination.Revised{Settings: destination.Settings{URL: "https://example.org/new",
		DebounceWindowSeconds: 5}, At: noon}
	s1 := destination.SealedSecret{ID: first, Sealed: []byte("s1")}
	begun := destination.Target{
		ID:           hook,
		Revision:     1,
		Organization: org,
		Enabled:      true,
		URL:          shown,
		Address:      address.Data,
		Headers:      []byte("sealed"),
		Secrets:      []destination.SealedSecret{s1},
	}
	with := func(change func(*destination.Target)) *destination.Target {
		changed := begun
		changed.Revision++
		change(&changed)
		return &changed
	}
	tests := map[string]struct {
		events []destination.Event
		want   *destination.Target
	}{
		"created": {nil, &begun},
		"revised": {[]destination.Event{revised}, with(func(t *destination.Target) {
			t.URL, t.Address, t.Headers, t.DebounceSeconds = "https://example.org/new", nil, nil, 5
		})},
		"disabled": {[]destination.Event{destination.Disabled{At: noon}}, with(func(t *destination.Target) {
			t.Enabled = false
		})},
		"auto-disabled": {[]destination.Event{destination.AutoDisabled{At: noon}}, with(func(t *destination.Target) {
			t.Enabled = false
		})},
		"enabled again": {
			[]destination.Event{destination.Disabled{At: noon}, destination.Enabled{At: noon}},
			with(func(t *destination.Target) { t.Revision = 3 }),
		},
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

func TestTargetSecrets(t *testing.T) {
	t.Parallel()
	s2 := destination.SealedSecret{ID: next, Sealed: []byte("s2")}
	expiring := func(at time.Time) destination.SealedSecret {
		return destination.SealedSecret{ID: first, Sealed: []byte("s1"), ExpiresAt: at}
	}
	overlap := targetOf(created, minted, rotated)
	before := *overlap
	if diff := cmp.Diff([]destination.SealedSecret{expiring(noon.Add(24 * time.Hour)), s2}, overlap.Secrets); diff != "" {
		t.Errorf("in the overlap (-want +got):\n%s", diff)
	}
	expired := overlap.After(hook, 3, destination.SecretExpired{SecretID: first, At: noon.Add(time.Hour)})
	if diff := cmp.Diff([]destination.SealedSecret{expiring(noon.Add(time.Hour)), s2}, expired.Secrets); diff != "" {
		t.Errorf("expired at once (-want +got):\n%s", diff)
	}
	third := destination.SecretRotated{
		SecretID:  other,
		Sealed:    []byte("s3"),
		Expiring:  []uuid.UUID{next},
		ExpiresAt: noon.Add(26 * time.Hour),
		At:        noon.Add(2 * time.Hour),
	}
	again := expired.After(hook, 4, third)
	s2.ExpiresAt = third.ExpiresAt
	if diff := cmp.Diff([]destination.SealedSecret{s2, {ID: other, Sealed: []byte("s3")}}, again.Secrets); diff != "" {
		t.Errorf("rotated after one had expired (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, *overlap); diff != "" || overlap.Secrets[0].ExpiresAt != noon.Add(24*time.Hour) {
		t.Errorf("an earlier target was changed:\n%s", diff)
	}
}

// A claim may have read a newer state than the next event.
func TestTargetSkipsKnownEvents(t *testing.T) {
	t.Parallel()
	claimed := &destination.Target{ID: hook, Revision: 5, Enabled: true}
	for _, revision := range []eventstore.Revision{4, 5} {
		if got := claimed.After(hook, revision, destination.Disabled{At: noon}); got != claimed {
			t.Errorf("event %d changed a target of revision 5: %+v", revision, got)
		}
	}
	if got := claimed.After(hook, 6, destination.Disabled{At: noon}); got.Enabled || !claimed.Enabled {
		t.Errorf("event 6 left %+v of %+v", got, claimed)
	}
}

// Targets are stored by the dispatcher: the existing ones must stay readable.
func TestStoredTarget(t *testing.T) {
	t.Parallel()
	target := targetOf(created, minted, rotated)
	got, err := json.Marshal(target)
	if err != nil {
		t.Fatal(err)
	}
	const sealed, open = `"url":"https://hooks.example.org/services/…646967657374","address":"c2VhbGVkIGFkZHJlc3M=",`,
		`"url":"https://example.org/hook",`
	const want = `{"id":"55555555-5555-4555-8555-555555555555","revision":2,` +
		`"organization":"11111111-1111-4111-8111-111111111111","enabled":true,` + sealed +
		`"headers":"c2VhbGVk","debounceSeconds":0,"secrets":[` +
		`{"id":"33333333-3333-4333-8333-333333333333","sealed":"czE=","expiresAt":"2026-11-22T12:00:00Z"},` +
		`{"id":"44444444-4444-4444-8444-444444444444","sealed":"czI="}]}`
	if string(got) != want {
		t.Errorf("saved as\n%s, want\n%s", got, want)
	}
	var read destination.Target
	if err := json.Unmarshal([]byte(want), &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(target, &read); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	read = destination.Target{} // before sealed addresses
	if err := json.Unmarshal([]byte(strings.Replace(want, sealed, open, 1)), &read); err != nil {
		t.Fatal(err)
	}
	target.URL, target.Address = "https://example.org/hook", nil
	if diff := cmp.Diff(target, &read); diff != "" {
		t.Errorf("read from before (-want +got):\n%s", diff)
	}
}
