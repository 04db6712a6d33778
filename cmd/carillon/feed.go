package main

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminclient"
)

type feedCommand struct {
	Register feedRegisterCommand `cmd:"" help:"Make a feed known that another system owns, so that it can be shared and pinned."`
	Share    feedShareCommand    `cmd:"" help:"Let an organization read a feed and get its events."`
	Unshare  feedUnshareCommand  `cmd:"" help:"End what share began."`
}

type feedRegisterCommand struct {
	remote
	Type string    `arg:"" enum:"news,event" help:"news or event."`
	Org  uuid.UUID `arg:"" help:"Id of the organization that owns it."`
	Name string    `arg:"" help:"Its name, for people."`
	ID   uuid.UUID `placeholder:"UUID" help:"Its id in the other system. Default: a new one."`
}

// Run registers the feed.
func (c *feedRegisterCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	created, err := client.RegisterFeed(ctx, adminclient.NewFeed{ID: c.ID, FeedType: c.Type, OrganizationID: c.Org, Name: c.Name})
	if err != nil {
		return err
	}
	return c.print(t.out, created, func(w io.Writer) { row(w, created.ID) })
}

// share names a feed and a reader.
type share struct {
	remote
	Type string    `arg:"" enum:"news,event" help:"news or event."`
	Feed uuid.UUID `arg:"" help:"Id of the feed."`
	With uuid.UUID `arg:"" help:"Id of the organization that reads it."`
}

func (s *share) done(t terminal, shared bool) error {
	answer := map[string]any{"feedId": s.Feed, "organizationId": s.With, "shared": shared}
	return s.print(t.out, answer, func(w io.Writer) {
		words := map[bool]string{true: "shared with", false: "no longer shared with"}
		row(w, fmt.Sprintf("%s feed %s is %s %s", s.Type, s.Feed, words[shared], s.With))
	})
}

type feedShareCommand struct{ share }

// Run shares the feed.
func (c *feedShareCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := client.ShareFeed(ctx, c.Type, c.Feed, c.With); err != nil {
		return err
	}
	return c.done(t, true)
}

type feedUnshareCommand struct{ share }

// Run ends the sharing.
func (c *feedUnshareCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := client.UnshareFeed(ctx, c.Type, c.Feed, c.With); err != nil {
		return err
	}
	return c.done(t, false)
}
