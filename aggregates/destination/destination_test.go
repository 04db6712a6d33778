package destination_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/destination"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	org   = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	other = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	first = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	next  = uuid.MustParse("44444444-4444-4444-8444-444444444444")
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	headers = destination.Sealed{Data: []byte("sealed"), Digest: []byte("digest")}
	address = destination.Sealed{Data: []byte("sealed address"), Digest: []byte("digest of it")}
	shown   = "https://hooks.example.org/services/…646967657374"
	created = destination.Created{
		Organization: org, At: noon,
		Settings: destination.Settings{
			ExternalID: "crm",
			Name:       "CRM",
			URL:        shown,
			Address:    address,
			Headers:    headers,
		},
	}
	minted  = destination.SecretMinted{SecretID: first, Sealed: []byte("s1"), At: noon}
	rotated = destination.SecretRotated{
		SecretID:  next,
		Sealed:    []byte("s2"),
		Expiring:  []uuid.UUID{first},
		ExpiresAt: noon.Add(24 * time.Hour),
		At:        noon,
	}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[destination.Event](t, destination.Events,
		created, minted, rotated,
		destination.Revised{Settings: destination.Settings{
			ExternalID: "crm",
			Name:       "CRM",
			URL:        shown,
			Address:    address,
			Headers:    headers,
			Plain: destination.Plain{
				DebounceWindowSeconds: 5,
				MaxRequestsPerSecond:  0.5,
				Traceparent:           true,
			},
		}, At: noon},
		destination.SecretExpired{SecretID: first, At: noon},
		destination.Enabled{At: noon}, destination.Disabled{At: noon},
		destination.AutoDisabled{Reason: "100 consecutive failures", At: noon},
		destination.Deleted{At: noon},
	)
	named := destination.Revised{Settings: destination.Settings{Name: "CRM", URL: shown, Headers: headers}, At: noon}
	named.Headers.Parts = []destination.SealedPart{{Name: "X-Tenant", Digest: []byte("digest")}}
	_, data, err := destination.Events.Encode(named)
	must.OK(t, err)
	aggregatetest.GoldenFile(t, "destination.revised.v2.headers.json", data)
}

func TestCreateDisabled(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, destination.Aggregate).
		When(destination.Create{
			Organization: org,
			SecretID:     first,
			Secret:       []byte("s1"),
			Disabled:     true,
			At:           noon,
			Settings:     created.Settings,
		}).
		Then(created, minted, destination.Disabled{At: noon})
}

func TestReviseMergesAndSwitches(t *testing.T) {
	t.Parallel()
	url, off, on := "https://example.org/new", false, true
	aggregatetest.Stream(t, destination.Aggregate).Of(created, minted).
		When(destination.Revise{
			Organization: org,
			Sets:         destination.FieldURL,
			Settings:     destination.Settings{URL: url},
			Enabled:      &off,
			ReadsHeaders: true,
			At:           noon,
		}).
		Then(destination.Revised{Settings: destination.Settings{
			ExternalID: "crm",
			Name:       "CRM",
			URL:        url,
			Headers:    headers,
		}, At: noon}, destination.Disabled{At: noon}).
		When(destination.Revise{Organization: org, Enabled: &on, At: noon}).
		Then(destination.Enabled{At: noon})
}

// Settings that have changed since they were read are not replaced; their sealing, and other parts of the state, do
// not count.
func TestRevise_changedSinceSeen(t *testing.T) {
	t.Parallel()
	mine, theirs := "Mine", "Theirs"
	seen := created.Settings
	seen.Headers.Data, seen.Address.Data = []byte("sealed again"), nil
	revised := destination.Revised{Settings: created.Settings, At: noon}
	revised.Name = theirs
	aggregatetest.Stream(t, destination.Aggregate).Of(created, minted, rotated,
		destination.AutoDisabled{Reason: "100 consecutive failures", At: noon}).
		When(destination.Revise{
			Organization: org,
			Seen:         &seen,
			Sets:         destination.FieldName,
			Settings:     destination.Settings{Name: theirs},
			At:           noon,
		}).
		Then(revised).
		When(destination.Revise{
			Organization: org,
			Seen:         &seen,
			Sets:         destination.FieldName,
			Settings:     destination.Settings{Name: mine},
			At:           noon,
		}).
		Refused(destination.ErrRevisedSince)
	aggregatetest.Stream(t, destination.Aggregate).Of(created, minted).
		When(destination.Revise{
			Organization: org,
			Seen:         &destination.Settings{},
			Sets:         destination.FieldName,
			Settings:     destination.Settings{Name: mine},
			At:           noon,
		}).
		Refused(destination.ErrRevisedSince)
	aggregatetest.Stream(t, destination.Aggregate).Of(created, minted).
		When(destination.Revise{
			Organization: other,
			Seen:         &destination.Settings{},
			Sets:         destination.FieldName,
			Settings:     destination.Settings{Name: mine},
			At:           noon,
		}).
		Refused(destination.ErrUnknown)
}

func TestRotate_earlierOverlap(t *testing.T) {
	t.Parallel()
	third, later := uuid.New(), noon.Add(time.Hour)
	aggregatetest.Stream(t, destination.Aggregate).Of(created, minted, rotated).
		When(destination.Rotate{
			Organization: org,
			SecretID:     third,
			Secret:       []byte("s3"),
			At:           later,
		}).
		Then(destination.SecretRotated{
			SecretID:  third,
			Sealed:    []byte("s3"),
			Expiring:  []uuid.UUID{next},
			ExpiresAt: later.Add(24 * time.Hour),
			At:        later,
		})
}

func TestMaxActiveSecrets(t *testing.T) {
	t.Parallel()
	scenario := aggregatetest.Stream(t, destination.Aggregate).Of(created, minted)
	for i := range 9 {
		scenario.When(destination.Rotate{Organization: org, SecretID: uuid.New(),
			At: noon.Add(time.Duration(i) * time.Minute)})
	}
	scenario.When(destination.Rotate{Organization: org, SecretID: uuid.New(), At: noon.Add(10 * time.Minute)}).
		Refused(destination.ErrTooManySecrets)
	scenario.When(destination.Rotate{Organization: org, SecretID: next, At: noon.Add(24*time.Hour + time.Second)})
	assert.Equal(t, len(scenario.State().Secrets), 11, "secrets after the oldest expired and one was added")
}

func TestExpire(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		secret uuid.UUID
		at     time.Time
		err    error
	}{
		"one of two":             {first, noon, nil},
		"one not of it":          {uuid.New(), noon, destination.ErrUnknownSecret},
		"expired":                {first, noon.Add(25 * time.Hour), destination.ErrUnknownSecret},
		"the only one left":      {next, noon.Add(25 * time.Hour), destination.ErrLastSecret},
		"the new one in overlap": {next, noon, destination.ErrLastSecret},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			scenario := aggregatetest.Stream(t, destination.Aggregate).Of(created, minted, rotated).
				When(destination.ExpireSecret{Organization: org, SecretID: tt.secret, At: tt.at})
			if tt.err != nil {
				scenario.Refused(tt.err)
				return
			}
			scenario.Then(destination.SecretExpired{SecretID: tt.secret, At: tt.at})
		})
	}
}

func TestExpire_slowClock(t *testing.T) {
	t.Parallel()
	third, expired := uuid.New(), destination.SecretExpired{SecretID: first, At: noon.Add(time.Minute)}
	for secret, want := range map[uuid.UUID]error{first: destination.ErrUnknownSecret, next: destination.ErrLastSecret} {
		aggregatetest.Stream(t, destination.Aggregate).Of(created, minted, rotated, expired).
			When(destination.ExpireSecret{Organization: org, SecretID: secret, At: noon}).Refused(want)
	}
	aggregatetest.Stream(t, destination.Aggregate).Of(created, minted, rotated, expired).
		When(destination.Rotate{
			Organization: org,
			SecretID:     third,
			Secret:       []byte("s3"),
			At:           noon,
		}).
		Then(destination.SecretRotated{
			SecretID:  third,
			Sealed:    []byte("s3"),
			Expiring:  []uuid.UUID{next},
			ExpiresAt: expired.At.Add(destination.Overlap),
			At:        expired.At,
		})
}

// After any order of rotations and expiries, by clocks that differ, exactly one secret never expires, and it signs at
// any later time.
func TestSecretsAlwaysSign(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := destination.State{}
		apply := func(c destination.Command) {
			events, err := destination.Aggregate.Decide(state, c)
			if err != nil {
				return
			}
			for _, event := range events {
				state = destination.Aggregate.Evolve(state, event)
			}
		}
		apply(destination.Create{Organization: org, SecretID: uuid.New(), At: noon})
		now := noon
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 30).Draw(t, "hours")) * time.Hour)
			if rapid.Bool().Draw(t, "rotate") {
				apply(destination.Rotate{Organization: org, SecretID: uuid.New(), At: now})
			} else {
				victim := rapid.SampledFrom(state.Secrets).Draw(t, "victim")
				apply(destination.ExpireSecret{Organization: org, SecretID: victim.ID, At: now})
			}
			active, never := 0, 0
			for _, secret := range state.Secrets {
				if secret.ActiveAt(state.SecretsAt) {
					active++
				}
				if secret.ExpiresAt.IsZero() {
					never++
				}
			}
			if active > destination.MaxActiveSecrets || never != 1 {
				t.Fatalf("%d active, %d never expiring", active, never)
			}
		}
	})
}

// Two changes of one state, as by two concurrent requests, are independent.
func TestEvolveSharesNoSecrets(t *testing.T) {
	t.Parallel()
	before := destination.State{}
	for _, event := range []destination.Event{created, minted, rotated, destination.SecretExpired{SecretID: first,
		At: noon}} {
		before = destination.Aggregate.Evolve(before, event)
	}
	for name, add := range map[string]func(uuid.UUID) destination.Event{
		"minted":  func(id uuid.UUID) destination.Event { return destination.SecretMinted{SecretID: id, At: noon} },
		"rotated": func(id uuid.UUID) destination.Event { return destination.SecretRotated{SecretID: id, At: noon} },
	} {
		mine, theirs := uuid.New(), uuid.New()
		one := destination.Aggregate.Evolve(before, add(mine))
		destination.Aggregate.Evolve(before, add(theirs))
		assert.Equal(t, one.Secrets[len(one.Secrets)-1].ID, mine, "%s: the newest secret", name)
	}
}

func TestAutoDisable_late(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, destination.Aggregate).Of(created, minted, destination.AutoDisabled{Reason: "failures",
		At: noon}, destination.Enabled{At: noon}).
		When(destination.AutoDisable{Switches: 0, Reason: "the same failures", At: noon}).Then()
	aggregatetest.Stream(t, destination.Aggregate).Of(created, minted, destination.AutoDisabled{Reason: "failures",
		At: noon}, destination.Enabled{At: noon}).
		When(destination.AutoDisable{Switches: 2, Reason: "new failures", At: noon}).
		Then(destination.AutoDisabled{Reason: "new failures", At: noon})
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	on, off, unknown := true, false, destination.ErrUnknown
	aggregatetest.Table(t, destination.Aggregate).
		State("none").
		State("enabled", created, minted).
		State("disabled", created, minted, destination.Disabled{At: noon}).
		State("auto-disabled", created, minted, destination.AutoDisabled{At: noon}).
		State("deleted", created, minted, destination.Deleted{At: noon}).
		When(destination.Create{Organization: org}, "Created SecretMinted", "", "", "", unknown).
		When(destination.Revise{Organization: org}, unknown, "", "", "", unknown).
		When(destination.Revise{Organization: org, Enabled: &on}, unknown, "", "Enabled", "Enabled", unknown).
		When(destination.Revise{Organization: org, Enabled: &off}, unknown, "Disabled", "", "Disabled", unknown).
		When(destination.Rotate{Organization: org, SecretID: next, At: noon}, unknown, "SecretRotated", "SecretRotated",
			"SecretRotated", unknown).
		When(destination.ExpireSecret{Organization: org, SecretID: first, At: noon},
			unknown, destination.ErrLastSecret, destination.ErrLastSecret, destination.ErrLastSecret, unknown).
		When(destination.AutoDisable{Switches: 0}, unknown, "AutoDisabled", "", "", unknown).
		When(destination.AutoDisable{Switches: 1}, unknown, "", "", "", unknown).
		When(destination.Delete{Organization: org}, unknown, "Deleted", "Deleted", "Deleted", "").
		When(destination.Delete{Organization: other}, unknown, unknown, unknown, unknown, unknown).
		When(destination.Revise{Organization: other}, unknown, unknown, unknown, unknown, unknown).
		When(destination.Rotate{Organization: other}, unknown, unknown, unknown, unknown, unknown).
		When(destination.ExpireSecret{Organization: other, SecretID: first}, unknown, unknown, unknown, unknown, unknown)
}

// Header values are sent to another host only on behalf of a caller that may read them, or sends all of them.
func TestReviseKeepsHeadersFromOtherHosts(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]error{
		"https://evil.example/":                   destination.ErrNeedsHeaders,
		"https://hooks.example.org.evil.example/": destination.ErrNeedsHeaders,
		"https://hooks.example.org:8443/":         destination.ErrNeedsHeaders,
		"http://hooks.example.org/":               destination.ErrNeedsHeaders,
		"https://hooks.example.org/other":         nil,
		"https://HOOKS.example.org:443/other":     nil,
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			revise := destination.Revise{
				Organization: org,
				Sets:         destination.FieldURL,
				Settings:     destination.Settings{URL: url},
				At:           noon,
			}
			given := func() *aggregatetest.Scenario[destination.State, destination.Event, destination.Command] {
				return aggregatetest.Stream(t, destination.Aggregate).Of(created, minted)
			}
			moved := destination.Revised{Settings: destination.Settings{
				ExternalID: "crm",
				Name:       "CRM",
				URL:        url,
				Headers:    headers,
			}, At: noon}
			if want != nil {
				given().When(revise).Refused(want)
				revise.ReadsHeaders = true
			}
			given().When(revise).Then(moved)
		})
	}
	const moved = "https://evil.example/"
	aggregatetest.Stream(t, destination.Aggregate).Of(created, minted).
		When(destination.Revise{
			Organization: org,
			Sets:         destination.FieldURL | destination.FieldHeaders,
			Settings:     destination.Settings{URL: moved},
			At:           noon,
		}).
		Then(destination.Revised{Settings: destination.Settings{ExternalID: "crm", Name: "CRM", URL: moved}, At: noon})
}
