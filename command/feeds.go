package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/source"
)

// CreateFeed is the input of a create.
type CreateFeed struct {
	Name          string   // required
	Description   string   // required
	Enabled       *bool    // nil means true
	ConfigVersion *float64 // nil means 1
}

// ReviseFeed is the input of a change. Nil fields stay as they are.
type ReviseFeed struct {
	ID            uuid.UUID
	Name          *string
	Description   *string
	Enabled       *bool
	ConfigVersion *float64
	// Seen is UpdatedAt of the feed that the caller replaces. If it was changed since, the change is refused with
	// feed.ErrRevisedSince, and the present feed is returned. Zero means that the last writer wins.
	Seen time.Time
}

// RegisterFeed is an operator's input: a feed that another system owns. A zero ID gets a fresh one.
type RegisterFeed struct {
	ID           uuid.UUID
	FeedType     string // "news" or "event"
	Organization uuid.UUID
	Name         string
}

// ShareFeed is an operator's input: who else reads a feed.
type ShareFeed struct {
	FeedType     string
	FeedID       uuid.UUID
	Organization uuid.UUID
}

// UnshareFeed is an operator's input: who reads a feed no longer.
type UnshareFeed ShareFeed

// DeleteFeed is the input of a deletion.
type DeleteFeed struct{ ID uuid.UUID }

// AttachSource is the input of an attachment.
type AttachSource struct {
	FeedID     uuid.UUID
	SourceType string
	SourceID   uuid.UUID
}

// DetachSource names the association, not the source.
type DetachSource struct {
	FeedID        uuid.UUID
	AssociationID uuid.UUID
}

const defaultConfigVersion = 1

// CreateFeed makes an event feed of the caller's organization.
func (c *Commands) CreateFeed(ctx context.Context, by Caller, in CreateFeed) (made Result[feed.State], err error) {
	if err := checkFeed(&in.Name, &in.Description); err != nil {
		return made, err
	}
	enabled, version := true, float64(defaultConfigVersion)
	if in.Enabled != nil {
		enabled = *in.Enabled
	}
	if in.ConfigVersion != nil {
		version = *in.ConfigVersion
	}
	id := uuid.New()
	create := feed.Create{
		Organization: by.Organization,
		Enabled:      enabled,
		At:           c.now(),
		Settings:     feed.Settings{Name: in.Name, Description: in.Description, Config: feed.Config{Version: version}},
	}
	return within(ctx, c.Quotas, amount{by.Organization, organization.LimitFeeds, id, 1},
		func() (Result[feed.State], error) { return c.onFeed(ctx, by, id, create) })
}

// checkFeed checks the texts of a feed. nil means that one stays as it is. Its error joins the refusals of both.
func checkFeed(name, description *string) error {
	var wrong []error
	if name != nil {
		wrong = append(wrong, requireLine("name", *name, maxNameLength))
	}
	if description != nil {
		wrong = append(wrong, requireText("description", *description, maxDescriptionLength))
	}
	return errors.Join(wrong...)
}

// ReviseFeed changes an event feed.
func (c *Commands) ReviseFeed(ctx context.Context, by Caller, in ReviseFeed) (Result[feed.State], error) {
	revise := feed.Revise{
		Organization: by.Organization,
		Seen:         in.Seen,
		Name:         in.Name,
		Description:  in.Description,
		Enabled:      in.Enabled,
		By:           feed.ByAPI,
		At:           c.now(),
	}
	if err := checkFeed(in.Name, in.Description); err != nil {
		return Result[feed.State]{}, err
	}
	if in.ConfigVersion != nil {
		revise.Config = &feed.Config{Version: *in.ConfigVersion}
	}
	return c.onFeed(ctx, by, in.ID, revise)
}

// DeleteFeed deletes an event feed with its associations and items. The second time it is not found.
func (c *Commands) DeleteFeed(ctx context.Context, by Caller, in DeleteFeed) (Result[feed.State], error) {
	return c.onFeed(ctx, by, in.ID, feed.Delete{Organization: by.Organization, At: c.now()})
}

// RegisterFeed makes a feed known that another system owns, so that it can be shared and pinned.
func (c *Commands) RegisterFeed(ctx context.Context, by Caller, in RegisterFeed) (made Result[feed.State], err error) {
	if !slices.Contains([]string{feed.TypeNews, feed.TypeEvent}, in.FeedType) {
		return made, refuse(Malformed, "feedType", "feedType must be news or event")
	}
	if err := requireLine("name", in.Name, maxNameLength); err != nil {
		return made, err
	}
	if err := c.requireOrganization(ctx, "organizationId", in.Organization); err != nil {
		return made, err
	}
	id := in.ID
	if id == uuid.Nil {
		id = uuid.New()
	}
	by.Organization = in.Organization
	return c.onFeed(ctx, by, id, feed.Register{
		Organization: in.Organization,
		FeedType:     in.FeedType,
		Name:         in.Name,
		At:           c.now(),
	})
}

// ShareFeed lets an organization read a feed and get its events. The same again changes nothing.
func (c *Commands) ShareFeed(ctx context.Context, by Caller, in ShareFeed) (Result[feed.State], error) {
	if err := c.requireOrganization(ctx, "organizationId", in.Organization); err != nil {
		return Result[feed.State]{}, err
	}
	return c.onFeed(ctx, by, in.FeedID, feed.Share{FeedType: in.FeedType, With: in.Organization, At: c.now()})
}

// UnshareFeed ends what ShareFeed began.
func (c *Commands) UnshareFeed(ctx context.Context, by Caller, in UnshareFeed) (Result[feed.State], error) {
	return c.onFeed(ctx, by, in.FeedID, feed.Unshare{FeedType: in.FeedType, With: in.Organization, At: c.now()})
}

// AttachSource lets a source fill a feed: its known happenings are added without being published, then it is monitored.
// If its last walk is overdue, or it has none, the happenings of the next whole one are not published either. A paused
// source adds the known ones only. Attaching an attached one changes nothing.
func (c *Commands) AttachSource(
	ctx context.Context, by Caller, in AttachSource,
) (attached Result[feed.State], err error) {
	if !slices.Contains(source.Types(), in.SourceType) {
		return attached, refuse(Malformed, "sourceType", "sourceType must be one of %s", strings.Join(source.Types(), ", "))
	}
	known, err := source.Aggregate.Load(ctx, c.Store, in.SourceID)
	switch {
	case err != nil:
		return attached, err
	case known.State.Status == source.StatusNone:
		return attached, refuse(NotFound, "sourceId",
			"sourceId: source %s not found: send the url of a page in its place, or ask your operator for its id", in.SourceID)
	case known.State.Type != in.SourceType:
		return attached, refuse(Invalid, "sourceType", "sourceType must be %s: source %s is of type %[1]s", known.State.Type,
			in.SourceID)
	}
	current, err := c.Walks.SourceIsKnown(ctx, in.SourceID)
	if err != nil {
		return attached, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	association := uuid.New()
	attach := func() (Result[feed.State], error) {
		return c.onFeed(ctx, by, in.FeedID, feed.AttachSource{
			Organization:  by.Organization,
			AssociationID: association,
			SourceID:      in.SourceID,
			SourceType:    in.SourceType,
			Known:         current,
			At:            c.now(),
		})
	}
	of, err := feed.Aggregate.Load(ctx, c.Store, in.FeedID)
	if err != nil {
		return attached, err
	}
	// nothing is attached, or it is refused
	if _, is := of.State.SourceAssociation(in.SourceID); is || of.State.Organization != by.Organization {
		return attach()
	}
	return within(ctx, c.Quotas, amount{by.Organization, organization.LimitSources, association, 1}, attach)
}

// DetachSource ends an association. Items that no other source of the feed carries leave it.
func (c *Commands) DetachSource(ctx context.Context, by Caller, in DetachSource) (Result[feed.State], error) {
	return c.onFeed(ctx, by, in.FeedID, feed.DetachSource{
		Organization: by.Organization, AssociationID: in.AssociationID, At: c.now(),
	})
}

// onFeed runs a command of the feed aggregate.
func (c *Commands) onFeed(
	ctx context.Context, by Caller, id uuid.UUID, command feed.Command,
) (Result[feed.State], error) {
	out, err := feed.Aggregate.Execute(ctx, c.Store, id, command, feed.Options{Metadata: by.metadata()})
	return resultOf(id, out.Loaded), refused(err)
}
