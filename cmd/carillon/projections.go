package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
)

type projectionsCommand struct {
	Status  projectionsStatusCommand  `cmd:"" help:"Show the progress of each projection."`
	Rebuild projectionsRebuildCommand `cmd:"" help:"Rebuild a read model from the events, while the old one serves."`
}

type projectionsStatusCommand struct{ remote }

// Run prints the table.
func (c *projectionsStatusCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	list, err := client.Projections(ctx)
	if err != nil {
		return err
	}
	return c.print(t.out, list, func(w io.Writer) { projectionTable(w, list) })
}

func projectionTable(w io.Writer, list []adminapi.Projection) {
	row(w, "NAME", "KIND", "STATE", "BEHIND", "EVENTS", "POSITION", "UPDATED", "RUN BY")
	var troubles []string
	head := ""
	for _, p := range list {
		row(w, p.Name, p.Kind, projectionState(p), behind(p), p.Events, place(p.Position), moment(&p.UpdatedAt), cmp.Or(p.Process, "-"))
		head = place(p.Head)
		switch r := p.Rebuild; {
		case p.Stopped != "":
			troubles = append(troubles, p.Name+" has stopped: "+p.Stopped)
		case r != nil && r.Error != "":
			troubles = append(troubles, p.Name+" could not be rebuilt: "+r.Error)
		case p.Process == "":
			troubles = append(troubles, "No process runs "+p.Name+": is one up that has its role?")
		case p.Outdated != "":
			troubles = append(troubles, p.Name+" is being rebuilt, and serves the previous data: "+p.Outdated)
		}
	}
	if head != "" {
		row(w)
		row(w, "The newest event is at position "+head+"; a consumer shows the position of the last event that concerned it.")
	}
	for _, trouble := range troubles {
		row(w, trouble)
	}
}

// place is a position for people: commit and prepare are nearly always the same.
func place(position string) string {
	if commit, prepare, ok := strings.Cut(position, "/"); ok && commit == prepare {
		return commit
	}
	return position
}

func projectionState(p adminapi.Projection) string {
	switch r := p.Rebuild; {
	case p.Stopped != "":
		return "STOPPED"
	case r != nil && r.Error != "":
		return "rebuild failed"
	case r != nil && r.Total > 0:
		return fmt.Sprintf("rebuilding, %d %%", 100*r.Done/r.Total)
	case r != nil:
		return "rebuilding"
	case p.Process == "":
		return "NOT RUNNING"
	case p.Building != nil:
		return fmt.Sprintf("building, %d of %d", p.Building.Done, p.Building.Total)
	}
	return "running"
}

// behind is how old the oldest event is that one has yet to apply.
func behind(p adminapi.Projection) string {
	if p.Behind == nil {
		return "?"
	}
	if lag := time.Duration(*p.Behind * float64(time.Second)).Round(time.Second); lag > 0 {
		return lag.String()
	}
	return "-"
}

type projectionsRebuildCommand struct {
	remote
	Name   string `arg:"" help:"Name, as in the status."`
	NoWait bool   `help:"Start the rebuild without waiting for its end."`
}

// pollInterval is between two looks at a rebuild.
const pollInterval = 200 * time.Millisecond

// Run begins the rebuild and follows it to its end.
func (c *projectionsRebuildCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := client.Rebuild(ctx, c.Name); err != nil {
		return err
	}
	if c.NoWait {
		return c.print(t.out, adminapi.Rebuilding{Name: c.Name}, func(w io.Writer) {
			row(w, c.Name+" is being rebuilt; \"carillon projections status\" shows how far it is")
		})
	}
	started := time.Now()
	done, err := c.follow(ctx, client, t)
	if err != nil {
		return err
	}
	return c.print(t.out, done, func(w io.Writer) {
		row(w, fmt.Sprintf("%s is rebuilt: %d events in %s", done.Name, done.Events, time.Since(started).Round(time.Millisecond)))
		if done.LeftOut != "" {
			row(w, done.LeftOut)
		}
	})
}

func (c *projectionsRebuildCommand) follow(ctx context.Context, client *adminclient.Client, t terminal) (adminapi.Projection, error) {
	show := func(*adminapi.Rebuild) {}
	if config.IsTerminal(t.err) {
		bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(t.err), progressbar.OptionSetDescription("rebuilding "+c.Name),
			progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
		defer func() { _ = bar.Finish() }()
		show = func(r *adminapi.Rebuild) {
			if r.Total > 0 {
				bar.ChangeMax64(r.Total)
				_ = bar.Set64(min(r.Done, r.Total-1)) // at its maximum the bar would end itself
			}
		}
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		list, err := client.Projections(ctx)
		if err != nil {
			return adminapi.Projection{}, err
		}
		for _, p := range list {
			switch {
			case p.Name != c.Name:
			case p.Rebuild == nil:
				return p, nil
			case p.Rebuild.Error != "":
				return p, errors.New("the rebuild failed, the previous tables stay: " + p.Rebuild.Error)
			default:
				show(p.Rebuild)
			}
		}
		select {
		case <-ctx.Done():
			return adminapi.Projection{}, fmt.Errorf("the rebuild continues in the server: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
