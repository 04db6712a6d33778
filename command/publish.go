package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

const (
	maxSourceLength = 2048
	maxEventData    = 512 << 10 // bytes; the store takes 1 MiB an append, metadata included
	maxDataDepth    = 64        // levels of arrays and objects in each other, as parsers of receivers have limits
)

// Publish is an event to be published.
type Publish struct {
	ID           uuid.UUID // zero: a new one. The same id is published once
	Type         string
	Source       string // URI-reference
	Subject      string
	Time         time.Time // zero: now
	FeedType     string
	FeedID       uuid.UUID
	Organization uuid.UUID
	Data         []byte // JSON, valid by the catalog
}

// Publish records an event, which is then dispatched to its subscribers. Repeating an event records nothing; another
// one with the same id is refused.
func (c *Commands) Publish(ctx context.Context, by Caller, in Publish) (Result[publication.State], error) {
	command, err := c.publication(&in)
	if err != nil {
		return Result[publication.State]{ID: in.ID}, err
	}
	metadata := by.metadata()
	metadata.Organization, metadata.CorrelationID = in.Organization, in.ID
	out, err := publication.Aggregate.Execute(ctx, c.Store, in.ID, command, publication.Options{
		CommandID: publishID(in), // the same event is the same command, another one of its id is not
		Metadata:  metadata,
		Known:     &eventstore.Loaded[publication.State]{Revision: eventstore.NoStream}, // most are new: try without reading
	})
	return resultOf(in.ID, out.Loaded), refusePublish(in.ID, err)
}

// publication checks an event, and fills in omitted fields.
func (c *Commands) publication(in *Publish) (publication.Publish, error) {
	if err := c.checkEvent(in); err != nil {
		return publication.Publish{}, err
	}
	return publication.Publish{Published: publication.Published{
		Organization: in.Organization,
		Type:         in.Type,
		Source:       in.Source,
		Subject:      in.Subject,
		Time:         in.Time.UTC().Truncate(time.Microsecond),
		FeedType:     in.FeedType,
		FeedID:       in.FeedID,
		Data:         in.Data,
	}}, nil
}

// publishID names the intention to publish an event. It follows from all that the event is but its time, so that the
// store takes only the same event for a repetition.
func publishID(in Publish) uuid.UUID {
	name := fmt.Appendf(make([]byte, 0, 256+len(in.Data)), "%q", []string{
		in.Type, in.Organization.String(), in.Source, in.Subject, in.FeedType, in.FeedID.String(),
	})
	return uuid.NewSHA1(in.ID, append(name, in.Data...))
}

func refusePublish(id uuid.UUID, err error) error {
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		refusal := refuse(Conflict, "id", "id %s was published before, and is retired: publish another event under "+
			"another id", id)
		refusal.Err = err
		return refusal
	}
	if differs, ok := errors.AsType[*publication.DiffersError](err); ok {
		refusal := refuse(Conflict, "id", "id %s is published already and differs in %s: publish another event under "+
			"another id",
			id, strings.Join(differs.Members, ", "))
		refusal.Err = err
		return refusal
	}
	return refused(err)
}

// Published is the place of a recorded publication.
func (c *Commands) Published(ctx context.Context, event uuid.UUID) (eventstore.Position, error) {
	loaded, err := publication.Aggregate.Load(ctx, c.Store, event)
	return loaded.Position, err
}

func (c *Commands) checkEvent(in *Publish) error {
	if in.ID == uuid.Nil {
		in.ID = uuid.New()
	}
	now := c.Now()
	if in.Time.IsZero() {
		in.Time = now
	}
	if err := checkAttributes(in, now); err != nil {
		return err
	}
	entry, known := c.Catalog.Find(in.Type)
	switch {
	case in.Type == "":
		return refuse(Malformed, "type", "type is required, for example \"news.item.added\"")
	case !known:
		return refuse(Invalid, "type", "type %q is not in the catalog; GET /events/types lists the known ones", in.Type)
	case !entry.CurrentlyEmitted:
		return refuse(Invalid, "type", "type %q is reserved and never published", in.Type)
	case (in.FeedType == "") != (in.FeedID == uuid.Nil):
		return refuse(Malformed, "feedId", "feedType and feedId go together: give both or neither")
	case in.FeedType != entry.FeedType && in.FeedType != "":
		return refuse(Invalid, "feedType", "feedType must be %s for events of type %s", orNone(entry.FeedType),
			in.Type)
	case !utf8.Valid(in.Data):
		return refuse(Malformed, "data", "data must be valid UTF-8")
	case len(in.Data) > maxEventData:
		return refuse(Invalid, "data", "data must be at most %d bytes", maxEventData)
	}
	if at := tooDeep(in.Data); at != "" {
		return refuse(Invalid, "data"+at, "data%s is nested deeper than %d levels", at, maxDataDepth)
	}
	problems, err := c.Catalog.Check(in.Type, in.Data)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		texts := make([]string, len(problems))
		for i, p := range problems {
			texts[i] = "data" + p.Path + " " + p.Message
		}
		return refuse(Invalid, "data"+problems[0].Path, "data does not match the schema of %s: %s", in.Type,
			strings.Join(texts, "; "))
	}
	return nil
}

// tooDeep is the JSON pointer of the first value that is nested too deep; empty if none is.
func tooDeep(data []byte) string {
	values := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		if _, err := values.ReadToken(); err != nil {
			return "" // the end, or no JSON, which is refused elsewhere
		}
		if values.StackDepth() > maxDataDepth {
			return string(values.StackPointer())
		}
	}
}

func orNone(feedType string) string {
	for _, known := range subscription.FeedTypes {
		if known == feedType {
			return feedType
		}
	}
	return "none"
}

// maxAhead is how far ahead of the clock the time of an event may be: a day, for clocks that are set to a wrong zone.
const maxAhead = 24 * time.Hour

// checkAttributes refuses an event whose source, subject or time can't be sent as a CloudEvent's.
func checkAttributes(in *Publish, now time.Time) error {
	if err := requireText("source", in.Source, maxSourceLength); err != nil {
		return err
	}
	if err := checkText("subject", in.Subject, maxSourceLength); err != nil {
		return err
	}
	switch {
	case !isURIReference(in.Source):
		return refuse(Malformed, "source", "source must be a URI-reference, such as /news/local or https://example.org/: "+
			"percent-encode spaces and other characters that a URI can't have; it is %q", in.Source)
	case strings.ContainsFunc(in.Subject, unicode.IsControl):
		return refuse(Malformed, "subject", "subject must not contain tabs, line breaks and other control characters")
	case in.Subject != "" && strings.TrimSpace(in.Subject) == "":
		return refuse(Malformed, "subject", "subject must not be blank; leave it out")
	case in.Time.Before(time.Unix(0, 0)), in.Time.After(now.Add(maxAhead)):
		return refuse(Malformed, "time", "time must be from 1970 to a day ahead; leave it out for now")
	}
	return nil
}

var uriCharacters = regexp.MustCompile(`^(?:[-\w.~:/?#@!$&'()*+,;=\[\]]|%[0-9A-Fa-f]{2})+$`)

// isURIReference reports whether a text is a URI-reference of RFC 3986 that url.Parse takes as well, as receivers do.
// It is stricter than url.Parse: characters outside of ASCII have to be percent-encoded, and brackets are for hosts.
func isURIReference(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.String() != "" && uriCharacters.MatchString(text) && strings.Count(text, "#") <= 1 &&
		!strings.ContainsAny(strings.Replace(text, parsed.Host, "", 1), "[]")
}
