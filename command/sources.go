package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/source"
	"carillon/command/collect/extract/selectors"
)

// maxSourceURL bounds a source's URL, as destination URLs are bounded.
const maxSourceURL = 2048

// RegisterSource is an operator's input: a page's URL or an account's handle, as the type wants it.
type RegisterSource struct {
	Type     string // one of source.Types
	URL      string // site, sitemap, siteIndexPage: absolute, http or https; a calendar's may be webcal or webcals
	Handle   string // instagram, facebook, tiktok, twitter
	Timezone string // IANA; the zone of dates without one; may be empty
}

// CollectSource is an operator's input.
type CollectSource struct{ Source uuid.UUID }

// PauseSource is an operator's input: the source is not visited any more.
type PauseSource struct {
	Source uuid.UUID
	Reason string // for people: whose wish it is
}

// ReviseSource is an operator's input: the settings of a source, which replace the present ones.
type ReviseSource struct {
	Source uuid.UUID
	source.Settings
}

// ResumeSource is an operator's input: a pause ends.
type ResumeSource struct{ Source uuid.UUID }

// handlePattern allows what the four platforms allow in names and numeric ids, with or without the leading "@".
var handlePattern = regexp.MustCompile(`^@?[A-Za-z0-9._-]{1,100}$`)

// RegisterSource makes a source. Registering the same again changes nothing.
func (c *Commands) RegisterSource(
	ctx context.Context, by Caller, in RegisterSource,
) (Result[source.State], error) {
	if err := in.Check(); err != nil {
		return Result[source.State]{}, err
	}
	in.Handle = strings.TrimPrefix(in.Handle, "@")
	id := source.ID(in.Type, in.URL, in.Handle, in.Timezone)
	return c.onSource(ctx, by, id, source.Register{
		Type:     in.Type,
		URL:      in.URL,
		Handle:   in.Handle,
		Timezone: in.Timezone,
		At:       c.now(),
	})
}

// CollectSource asks for a collection as soon as a collector is free.
func (c *Commands) CollectSource(ctx context.Context, by Caller, in CollectSource) (Result[source.State], error) {
	return c.onSource(ctx, by, in.Source, source.Request{At: c.now()})
}

// PauseSource stops visits of a source until it is resumed. A visit that is in progress ends at its next page. Pausing
// it again sets another reason.
func (c *Commands) PauseSource(ctx context.Context, by Caller, in PauseSource) (Result[source.State], error) {
	if err := requireLine("reason", in.Reason, maxReasonLength); err != nil {
		return Result[source.State]{}, err
	}
	return c.onSource(ctx, by.because(in.Reason), in.Source, source.Pause{Reason: in.Reason, At: c.now()})
}

// ResumeSource ends a pause: the source is visited at once.
func (c *Commands) ResumeSource(ctx context.Context, by Caller, in ResumeSource) (Result[source.State], error) {
	return c.onSource(ctx, by, in.Source, source.Resume{At: c.now()})
}

// ReviseSource changes how the pages of a source are read. They are read again at once.
func (c *Commands) ReviseSource(ctx context.Context, by Caller, in ReviseSource) (Result[source.State], error) {
	if err := CheckSettings(in.Settings); err != nil {
		return Result[source.State]{}, err
	}
	return c.onSource(ctx, by, in.Source, source.Revise{Settings: in.Settings, At: c.now()})
}

// CheckSettings refuses settings of a source with selectors that can't be used. Its error joins the refusals of all.
func CheckSettings(s source.Settings) error {
	var wrong []error
	for _, n := range s.Selectors.Named() {
		if *n.Text == "" {
			continue
		}
		if _, err := selectors.Compile(*n.Text); err != nil {
			wrong = append(wrong, refuse(Malformed, n.Name, "%s must be a CSS selector of tags, classes, ids, attributes and "+
				"positions, with descendants and children: %s", n.Name, err))
		}
	}
	if s.Selectors.Event == "" && s.Selectors != (source.Selectors{}) {
		wrong = append(wrong, refuse(Malformed, "event", "event is required: the others look within its elements"))
	}
	return errors.Join(wrong...)
}

// onSource runs a command of the source aggregate.
func (c *Commands) onSource(
	ctx context.Context, by Caller, id uuid.UUID, command source.Command,
) (Result[source.State], error) {
	out, err := source.Aggregate.Execute(ctx, c.Store, id, command, source.Options{Metadata: by.metadata()})
	return resultOf(id, out.Loaded), refused(err)
}

// Check refuses a source that can't be registered. Its error joins the refusals of all fields.
func (in RegisterSource) Check() error {
	if !slices.Contains(source.Types(), in.Type) {
		return refuse(Malformed, "type", "type must be one of %s", strings.Join(source.Types(), ", "))
	}
	var zone error
	if _, err := time.LoadLocation(in.Timezone); err != nil || in.Timezone == "Local" {
		zone = refuse(Malformed, "timezone", "timezone must be an IANA name such as Europe/Rome")
	}
	return errors.Join(zone, in.checkPlace())
}

// checkPlace checks the address or account.
func (in RegisterSource) checkPlace() error {
	if source.IsPage(in.Type) {
		if in.Handle != "" {
			return refuse(Malformed, "handle", "handle must be left out: a source of type %s has a url", in.Type)
		}
		return checkSourceURL(in.URL)
	}
	switch {
	case in.URL != "":
		return refuse(Malformed, "url", "url must be left out: a source of type %s has a handle", in.Type)
	case in.Handle == "":
		return refuse(Malformed, "handle", "handle is required for a source of type %s", in.Type)
	case !handlePattern.MatchString(in.Handle):
		return refuse(Malformed, "handle", "handle must be the account's name or id: letters, digits, '.', '_' and '-'")
	}
	return nil
}

// sourceSchemes are those that are fetched; webcal and webcals stand for http and https.
var sourceSchemes = []string{"https", "http", "webcal", "webcals"}

func checkSourceURL(text string) error {
	if err := requireText("url", text, maxSourceURL); err != nil {
		return err
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Hostname() == "" || !slices.Contains(sourceSchemes, parsed.Scheme):
		return refuse(Malformed, "url", "url must be absolute and begin with https://, http://, webcal:// or webcals://")
	case parsed.User != nil:
		return refuse(Malformed, "url", "url must not hold a user name or password: only pages that are open to all are read")
	}
	return nil
}

// SourceAt names a source by its address, for the feed that is to get it. Accounts have none: their operator names them
// by their ids.
type SourceAt struct {
	FeedID   uuid.UUID
	Type     string // site, sitemap or siteIndexPage
	URL      string
	Timezone string // IANA. Optional: a source with any will do.
}

// SourceAt returns the id of the source at an address. If there is none and organizations may register sources, it
// registers one. Each call counts against the organization's limit then, so that the limit does not show which
// addresses are registered.
func (c *Commands) SourceAt(ctx context.Context, by Caller, in SourceAt) (uuid.UUID, error) {
	of, err := feed.Aggregate.Load(ctx, c.Store, in.FeedID)
	if err != nil {
		return uuid.Nil, err
	}
	if err := refused(of.State.ChangeableBy(by.Organization)); err != nil {
		return uuid.Nil, err
	}
	id, err := c.FindSourceAt(ctx, in)
	if err != nil || !c.OrganizationSources {
		return id, err
	}
	if err := c.spend(ctx, by.Organization, organization.LimitSourceAddressesPerDay, 1); err != nil {
		return uuid.Nil, err
	}
	if id == uuid.Nil {
		by.Organization = uuid.Nil // sources belong to no organization
		made, err := c.RegisterSource(ctx, by, RegisterSource{Type: in.Type, URL: in.URL, Timezone: in.Timezone})
		return made.ID, err
	}
	return id, nil
}

// FindSourceAt returns the id of the source at an address, or uuid.Nil if SourceAt would register one. If there is none
// and organizations may not register sources, it refuses.
func (c *Commands) FindSourceAt(ctx context.Context, in SourceAt) (uuid.UUID, error) {
	if !source.IsPage(in.Type) {
		return uuid.Nil, refuse(Malformed, "sourceType",
			"sourceType must be site, sitemap or siteIndexPage for a source that is named by its url")
	}
	if err := (RegisterSource{Type: in.Type, URL: in.URL, Timezone: in.Timezone}).Check(); err != nil {
		return uuid.Nil, err
	}
	id, err := c.Walks.SourceAt(ctx, in.Type, in.URL, in.Timezone)
	switch {
	case err != nil:
		return uuid.Nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case id == uuid.Nil && !c.OrganizationSources:
		return uuid.Nil, refuse(NotFound, "url", "no source of this type has this url: ask your operator to add it")
	}
	return id, nil
}
