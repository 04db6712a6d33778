package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

type feedCommand struct {
	Register feedRegisterCommand `cmd:"" help:"Register a feed that another system owns, so that it can be shared and pinned."`
	Share    feedShareCommand    `cmd:"" help:"Share a feed with an organization: read access and its events."`
	Unshare  feedUnshareCommand  `cmd:"" help:"Stop sharing a feed with an organization."`
}

type feedRegisterCommand struct {
	changing
	Type string       `arg:"" enum:"news,event" help:"news or event."`
	Org  organization `arg:"" help:"Id of the owning organization, or its beginning."`
	Name string       `arg:"" help:"Display name."`
	ID   anID         `placeholder:"UUID" help:"Id in the other system. Default: a new one."`
}

// Run registers the feed.
func (c *feedRegisterCommand) Run(ctx context.Context, t terminal) error {
	client, org, err := c.of(ctx, c.Org)
	if err != nil {
		return err
	}
	created, err := adminclient.Post[adminapi.Created](ctx, client, adminclient.NewFeed{
		ID:             c.ID.UUID(),
		FeedType:       c.Type,
		OrganizationID: org,
		Name:           c.Name,
	}, "feeds")
	return c.answer(t.out, created, err, func(w io.Writer) { row(w, created.ID) })
}

// share names a feed and a reader.
type share struct {
	changing
	Type string       `arg:"" enum:"news,event" help:"news or event."`
	Feed anID         `arg:"" help:"Id of the feed."`
	With organization `arg:"" help:"Id of the reading organization, or its beginning."`
}

// set makes the feed shared or not, and says so.
func (s *share) set(ctx context.Context, t terminal, shared bool) error {
	client, with, err := s.of(ctx, s.With)
	if err != nil {
		return err
	}
	method, words := http.MethodDelete, "no longer shared with"
	if shared {
		method, words = http.MethodPut, "shared with"
	}
	if err := client.Do(ctx, method, nil, "feeds", s.Type, s.Feed.UUID().String(), "shares", with.String()); err != nil {
		return err
	}
	answer := map[string]any{"feedId": s.Feed.UUID(), "organizationId": with, "shared": shared}
	return s.print(t.out, answer, func(w io.Writer) {
		row(w, fmt.Sprintf("%s feed %s is %s %s", s.Type, s.Feed.UUID(), words, with))
	})
}

type feedShareCommand struct{ share }

// Run shares the feed.
func (c *feedShareCommand) Run(ctx context.Context, t terminal) error { return c.set(ctx, t, true) }

type feedUnshareCommand struct{ share }

// Run ends the sharing.
func (c *feedUnshareCommand) Run(ctx context.Context, t terminal) error { return c.set(ctx, t, false) }
