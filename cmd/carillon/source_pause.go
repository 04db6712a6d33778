package main

import (
	"context"
	"io"

	"carillon/cmd/internal/adminapi"
)

type sourcePauseCommand struct {
	remote
	Source idStart `arg:"" help:"Id of the source, or its beginning."`
	Reason string  `required:"" placeholder:"TEXT" help:"Why, and whose wish it is. \"carillon source list\" shows it."`
}

// Help implements kong.HelpProvider.
func (sourcePauseCommand) Help() string {
	return `Stops visits of the source until "carillon source resume"; a visit in progress ends at its next page.
Its known events stay in the feeds, and it can be attached to others. Pausing it again replaces the reason.`
}

// Run pauses the source.
func (c *sourcePauseCommand) Run(ctx context.Context, t terminal) error {
	client, id, err := c.source(ctx, c.Source)
	if err != nil {
		return err
	}
	err = client.Post(ctx, map[string]string{"reason": c.Reason}, "sources", id.String(), "pause")
	return c.answer(t.out, adminapi.Created{ID: id}, err, func(w io.Writer) {
		row(w, "paused; \"carillon source resume\" has it visited again")
	})
}

type sourceResumeCommand struct {
	changing
	Source idStart `arg:"" help:"Id of the source, or its beginning."`
}

// Run resumes the source.
func (c *sourceResumeCommand) Run(ctx context.Context, t terminal) error {
	client, id, err := c.source(ctx, c.Source)
	if err != nil {
		return err
	}
	err = client.Post(ctx, nil, "sources", id.String(), "resume")
	return c.answer(t.out, adminapi.Created{ID: id}, err, func(w io.Writer) {
		row(w, "resumed; it is visited at once if a feed has it")
	})
}
