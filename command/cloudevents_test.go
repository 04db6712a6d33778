package command_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/publication"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/delivery/sending"
	"carillon/eventstore/storetest/must"
)

// published is an event of a type that is accepted as it is.
func published(t *testing.T, known catalog.Type) command.Publish {
	t.Helper()
	example := must.Get(known.Example(uuid.NewString, noon))(t)
	data := must.Get(json.Marshal(example))(t)
	return command.Publish{
		Type:         known.Name,
		Source:       "/tests",
		Organization: uuid.New(),
		Data:         data,
	}
}

// onCatalog returns use cases, and the types that are published.
func onCatalog(t *testing.T) (f *feedSide, types []catalog.Type) {
	t.Helper()
	f = onFeeds(t)
	f.Catalog = must.Get(catalog.New())(t)
	types = must.Get(catalog.Types())(t)
	return f, types
}

// isCloudEvent decodes and validates what receivers are sent of an event.
func isCloudEvent(t rapid.TB, made command.Result[publication.State]) {
	t.Helper()
	envelope, err := sending.NewBody(made.ID, *made.Value.First, noon).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var event cloudevents.Event
	if err = event.UnmarshalJSON(envelope); err == nil {
		err = event.Validate()
	}
	if err != nil || event.ID() != made.ID.String() || event.Type() != made.Value.First.Type {
		t.Errorf("%s: %v", envelope, err)
	}
}

// The envelope of every accepted event is a CloudEvent for CloudEvents' own SDK.
func TestAcceptedEventsAreCloudEvents(t *testing.T) {
	t.Parallel()
	f, types := onCatalog(t)
	odd := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"#", "?", "//", "//[::1]/", "//[::::]", "urn:", "%41", "//h%41", "\u00a0", " ", "\x7f", "a\u0085b", "//h:x",
	}))
	source := rapid.OneOf(odd, rapid.StringMatching(`([a-z]{1,3}:)?(//)?[-\w.~!$&'()*+,;=:@/?]{0,9}([#%\[\]"<> é]\w\w)?`))
	subject := rapid.OneOf(odd, rapid.StringMatching(`[ -~]*`))
	seconds := rapid.OneOf(rapid.Int64Range(-62135596800, 253402300799), rapid.Int64Range(0, noon.Unix()))
	rapid.Check(t, func(r *rapid.T) {
		known := types[rapid.IntRange(0, len(types)-1).Draw(r, "type")]
		in := published(t, known)
		in.Source, in.Subject = source.Draw(r, "source"), subject.Draw(r, "subject")
		in.Time = time.Unix(seconds.Draw(r, "time"), 0)
		if rapid.Bool().Draw(r, "in a feed") && known.FeedType != "" {
			in.FeedType, in.FeedID = known.FeedType, uuid.New()
		}
		made, err := f.Publish(t.Context(), operator, in)
		if err != nil {
			if refusal := (*command.Refusal)(nil); !errors.As(err, &refusal) {
				r.Fatal(err)
			}
			return
		}
		isCloudEvent(r, made)
	})
}

func TestPublishRefusesWhatIsNoCloudEvent(t *testing.T) {
	t.Parallel()
	f, types := onCatalog(t)
	type change = func(*command.Publish)
	source := func(text string) change { return func(in *command.Publish) { in.Source = text } }
	subject := func(text string) change { return func(in *command.Publish) { in.Subject = text } }
	at := func(at time.Time) change { return func(in *command.Publish) { in.Time = at } }
	for field, changes := range map[string][]change{
		"": {
			source("x"), source("/feeds/news/5"), source("https://a:b@[::1]:80/p;v=1?q=%C3%A9/?#f/?"), source("urn:isbn:1"),
			source("mailto:a@b.example"), source("?q"), source("./a:b"), source("//h%C3%A9/"), source("tag:x,2026:y"),
			subject("Café ☕ / 7"), subject(""), at(time.Time{}), at(time.Unix(0, 0)), at(noon.Add(24 * time.Hour)),
		},
		"source": {
			source(""), source(" "), source("not a uri"), source("a\nb"), source("é"), source("%zz"), source("a:b:c d"),
			source("1:2"), source("a#b#c"), source("[x]"), source("http://h:port/"), source("http://[::1/"), source("<a>"),
			source("a\\b"), source("a|b"), source(":"), source("#"),
		},
		"subject": {
			subject("a\nb"), subject("\t"), subject("\x7f"), subject("\u0085"), subject("  "), subject("\u00a0"),
		},
		"time": {
			at(time.Unix(-1, 0)), at(noon.Add(24*time.Hour + time.Microsecond)), at(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
	} {
		for i, change := range changes {
			in := published(t, types[0])
			change(&in)
			made, err := f.Publish(t.Context(), operator, in)
			if err == nil {
				isCloudEvent(t, made)
			}
			refusal, _ := errors.AsType[*command.Refusal](err)
			if field == "" && err != nil || field != "" && (refusal == nil || refusal.Kind != command.Malformed ||
				refusal.Field != field || !strings.HasPrefix(refusal.Message, field+" must")) {
				t.Errorf("%s %d: source %q, subject %q, time %s: %v", field, i, in.Source, in.Subject, in.Time, err)
			}
		}
	}
}
