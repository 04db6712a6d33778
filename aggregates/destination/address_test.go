package destination_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestMasked(t *testing.T) {
	t.Parallel()
	digest := []byte{0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89}
	const d = "…abcdef012345"
	for url, want := range map[string]string{
		"https://example.org":                      "https://example.org",
		"https://example.org/":                     "https://example.org/",
		"https://example.org/hook":                 "https://example.org/hook",
		"https://example.org:8443/crm-webhook/":    "https://example.org:8443/crm-webhook/",
		"https://[2001:db8::1]:8443/v1":            "https://[2001:db8::1]:8443/v1",
		"https://hooks.slack.com/services/T0/B0/x": "https://hooks.slack.com/services/" + d,
		"https://hooks.zapier.com/hooks/catch/1/a": "https://hooks.zapier.com/hooks/" + d,
		"https://discord.com/api/webhooks/1/token": "https://discord.com/api/" + d,
		"https://example.org/hook?key=topsecret":   "https://example.org/hook/" + d,
		"https://example.org?key=topsecret":        "https://example.org/" + d,
		"https://example.org/hook#topsecret":       "https://example.org/hook/" + d,
		"https://me:topsecret@example.org/hook":    "https://example.org/hook/" + d,
		// A first segment that is not a word.
		"https://hook.eu1.make.com/1a9xkq27vb0m4ts8w3yz6c5dfgh2jrln": "https://hook.eu1.make.com/" + d,
		"https://api.telegram.org/bot110201543:AAHdqTcvCH1vGWJxfSeo": "https://api.telegram.org/" + d,
		"https://example.org/8f14e45f-ceea-467f-a9b0-1d8f6a1b2c3d":   "https://example.org/" + d,
		"https://example.org/xKqRtYzWbN":                             "https://example.org/" + d,
		"https://example.org/%74opsecret":                            "https://example.org/" + d,
		"https://example.org/" + strings.Repeat("abc-", 9) + "d":     "https://example.org/" + d,
		"::no url": d,
	} {
		assert.Equal(t, destination.Masked(url, digest), want, "%s is shown as", url)
		masked := want != url
		if destination.Hides(url) != masked || destination.IsMasked(want) != masked || destination.IsMasked(url) {
			t.Errorf("%s: hides %t; %s is masked: %t", url, destination.Hides(url), want, destination.IsMasked(want))
		}
	}
	got := destination.Masked("https://example.org/hook/topsecret", nil)
	assert.True(t, got == "https://example.org/hook/…" && destination.IsMasked(got), "without a digest: %s", got)
}

// Nothing in the place of a credential is visible.
func TestMaskedShowsNoCredential(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9_~-]{20,60}`).Draw(t, "secret")
		before := rapid.SampledFrom([]string{"/hooks/", "/services/T0/", "/hook?key=", "/?", "?a=b&key=", "/a/b/c?d#",
			"/hook#", "//"}).Draw(t, "before")
		after := rapid.SampledFrom([]string{"", "/", "/in", "?x=y", "#z"}).Draw(t, "after")
		url := "https://hooks.example.org" + before + secret + after
		if shown := destination.Masked(url, nil); strings.Contains(shown, secret[:8]) || !destination.Hides(url) {
			t.Fatalf("%s is shown as %s", url, shown)
		}
	})
}

// v1 reads an event as stored before addresses were sealed.
func v1(t *testing.T, name string) destination.Event {
	t.Helper()
	stored, err := os.ReadFile("testdata/destination." + name + ".v1.json") //nolint:gosec // the test's own
	must.OK(t, err)
	stored = []byte(strings.ReplaceAll(string(stored), "https://example.org/",
		"https://hooks.example.org/services/topsecret/"))
	event, err := destination.Events.Decode(&eventstore.Recorded{Type: "destination." + name + ".v1", Data: stored})
	must.OK(t, err)
	return event
}

func TestEventsBeforeSealedAddresses(t *testing.T) {
	t.Parallel()
	settings := destination.Settings{
		ExternalID: "crm",
		Name:       "CRM",
		URL:        "https://hooks.example.org/services/topsecret/hook",
		Headers:    headers,
	}
	if diff := cmp.Diff(destination.Event(destination.Created{Organization: org, Settings: settings, At: noon}),
		v1(t, "created")); diff != "" {
		t.Error(diff)
	}
	settings.URL, settings.DebounceWindowSeconds = "https://hooks.example.org/services/topsecret/new", 5
	assert.Same(t, v1(t, "revised"), destination.Event(destination.Revised{Settings: settings, At: noon}))
}

func TestSealAddress(t *testing.T) {
	t.Parallel()
	open := v1(t, "created").(destination.Created) //nolint:errcheck,forcetypeassert // see above
	seal := destination.SealAddress{
		Open:    open.URL,
		URL:     shown,
		Address: address,
		At:      noon.Add(time.Hour),
	}
	sealed := open.Settings
	sealed.URL, sealed.Address = shown, address
	off := false
	aggregatetest.Stream(t, destination.Aggregate).Of(open, minted).
		When(seal).Then(destination.Revised{Settings: sealed, At: seal.At}).
		When(seal).Then().
		When(destination.Revise{Organization: org, Enabled: &off, At: noon}).Then(destination.Disabled{At: noon})
	t.Run("moved meanwhile", func(t *testing.T) {
		aggregatetest.Stream(t, destination.Aggregate).Of(open, minted, v1(t, "revised")).When(seal).Then()
	})
	t.Run("hides nothing", func(t *testing.T) {
		plain := open
		plain.URL = "https://example.org/hook"
		aggregatetest.Stream(t, destination.Aggregate).Of(plain, minted).
			When(destination.SealAddress{
				Open:    plain.URL,
				URL:     shown,
				Address: address,
				At:      noon,
			}).Then()
	})
	t.Run("gone", func(t *testing.T) {
		aggregatetest.Stream(t, destination.Aggregate).Of(open, minted, destination.Deleted{At: noon}).When(seal).
			Refused(destination.ErrUnknown)
		aggregatetest.Stream(t, destination.Aggregate).When(seal).Refused(destination.ErrUnknown)
	})
}

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
			assert.Same(t, got, tt.want)
		})
	}
}

// Each setting has a row that compares it, copies it alone, and has its stored name.
func TestFieldsDeclareAllSettings(t *testing.T) {
	t.Parallel()
	rows := map[string]destination.Declared{}
	all := destination.Field(0)
	for _, d := range destination.Fields {
		rows[d.Name] = d
		all |= d.Field
	}
	rows["address"] = rows["url"]
	assert.True(t, all == destination.FieldsAll && len(destination.Fields) == len(rows)-1,
		"the rows have fields %b, and all are %b", all, destination.FieldsAll)
	examples := map[reflect.Kind]any{
		reflect.String: "text", reflect.Int: 1, reflect.Float64: 1.5, reflect.Bool: true,
		reflect.Struct: destination.Sealed{Data: []byte("sealed"), Digest: []byte("digest")},
	}
	var none destination.Settings
	for _, setting := range reflect.VisibleFields(reflect.TypeOf(none)) {
		if setting.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(setting.Tag.Get("json"), ",")
		var one destination.Settings
		example := reflect.ValueOf(examples[setting.Type.Kind()]).Convert(setting.Type)
		reflect.ValueOf(&one).Elem().FieldByIndex(setting.Index).Set(example)
		field := rows[name].Field
		switch {
		case field == 0:
			t.Errorf("%s has no row", name)
		case one.Equal(none):
			t.Errorf("%s is not compared", name)
		case !reflect.DeepEqual(none.With(field, one), one):
			t.Errorf("%s is not copied by its field", name)
		case !none.With(destination.FieldsAll&^field, one).Equal(none):
			t.Errorf("%s is copied by another field", name)
		case rows[name].Text(none) != "":
			t.Errorf("%s has a text without a value", name)
		}
	}
}
