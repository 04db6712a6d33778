package destination_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/eventstore/aggregatetest"
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
		if got := destination.Masked(url, digest); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
		masked := want != url
		if destination.Hides(url) != masked || destination.IsMasked(want) != masked || destination.IsMasked(url) {
			t.Errorf("%s: hides %t; %s is masked: %t", url, destination.Hides(url), want, destination.IsMasked(want))
		}
	}
	if got := destination.Masked("https://example.org/hook/topsecret", nil); got != "https://example.org/hook/…" ||
		!destination.IsMasked(got) {
		t.Errorf("without a digest: %s", got)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	stored = []byte(strings.ReplaceAll(string(stored), "https://example.org/",
		"https://hooks.example.org/services/topsecret/"))
	event, err := destination.Events.Decode(&eventstore.Recorded{Type: "destination." + name + ".v1", Data: stored})
	if err != nil {
		t.Fatal(err)
	}
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
	if diff := cmp.Diff(destination.Event(destination.Revised{Settings: settings, At: noon}),
		v1(t, "revised")); diff != "" {
		t.Error(diff)
	}
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
