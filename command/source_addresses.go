package command

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/source"
)

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
