package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

type projectionsCommand struct {
	Status  projectionsStatusCommand  `cmd:"" help:"Show the progress of each projection."`
	Rebuild projectionsRebuildCommand `cmd:"" help:"Rebuild a read model from the events, while the old one serves."`
	Verify  projectionsVerifyCommand  `cmd:"" help:"Compare a read model with its events, and name rows that differ."`
}

type projectionsStatusCommand struct{ remote }

// Run prints the table.
func (c *projectionsStatusCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	list, err := client.Projections(ctx)
	return c.answer(t.out, list, err, func(w io.Writer) { projectionTable(w, list) })
}

// projectionTable writes a table and sentences of at most maxColumns.
func projectionTable(w io.Writer, list []adminapi.Projection) {
	row(w, "NAME", "KIND", "STATE", "BEHIND", "EVENTS", "POSITION")
	var troubles []string
	head, runs := "", map[string][]string{}
	for _, p := range list {
		row(w, p.Name, p.Kind, projectionState(p), behind(p), p.Events, place(p.Position))
		head = place(p.Head)
		if p.Process != "" {
			runs[p.Process] = append(runs[p.Process], p.Name)
		}
		switch r := p.Rebuild; {
		case p.Stopped != "":
			troubles = append(troubles, p.Name+" has stopped: "+p.Stopped)
		case r != nil && r.Error != "":
			troubles = append(troubles, p.Name+" could not be rebuilt: "+r.Error)
		case p.Verifying != nil && p.Verifying.Error != "":
			troubles = append(troubles, p.Name+" could not be verified: "+p.Verifying.Error)
		case p.Process == "":
			troubles = append(troubles, "No process runs "+p.Name+": is one up that has its role?")
		case p.Outdated != "":
			troubles = append(troubles, p.Name+" is being rebuilt, and serves the previous data: "+p.Outdated)
		}
		if p.Verified != nil {
			troubles = append(troubles, verificationLines(w, p.Name, *p.Verified)...)
		}
	}
	row(w)
	for _, process := range slices.Sorted(maps.Keys(runs)) {
		paragraph(w, "Run by "+process+": "+strings.Join(runs[process], ", "))
	}
	if head != "" {
		paragraph(w, "POSITION is the place in the log of the last event that concerned the projection; the newest event "+
			"is at "+head+".")
	}
	for _, trouble := range troubles {
		paragraph(w, trouble)
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
	case p.Verified != nil && p.Verified.Differing > 0:
		return "DIFFERS"
	case p.Building != nil:
		return fmt.Sprintf("building, %d %%", 100*p.Building.Done/max(p.Building.Total, 1))
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
	changing
	Name   string `arg:"" help:"Name, as in the status."`
	NoWait bool   `help:"Start the rebuild without waiting for its end."`
}

// pollInterval is between two looks at a rebuild.
const pollInterval = 200 * time.Millisecond

// Run begins the rebuild and follows it to its end.
func (c *projectionsRebuildCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	if err := client.Rebuild(ctx, c.Name); err != nil {
		return err
	}
	if c.NoWait {
		return c.print(t.out, adminapi.Rebuilding{Name: c.Name}, func(w io.Writer) {
			row(w, c.Name+" is being rebuilt; \"carillon projections status\" shows how far it is")
		})
	}
	started := time.Now()
	done, err := followWork(ctx, client, t, c.Name, "rebuild",
		func(p adminapi.Projection) *adminapi.Rebuild { return p.Rebuild })
	return c.answer(t.out, done, err, func(w io.Writer) {
		row(w, fmt.Sprintf("%s is rebuilt: %d events in %s", done.Name, done.Events,
			time.Since(started).Round(time.Millisecond)))
		if done.LeftOut != "" {
			row(w, done.LeftOut)
		}
	})
}

// followWork waits for the end of work on a read model, with a progress bar on a terminal.
func followWork(
	ctx context.Context, client *adminclient.Client, t terminal, name, work string,
	of func(adminapi.Projection) *adminapi.Rebuild,
) (adminapi.Projection, error) {
	show, end := bar(t, work+" of "+name)
	defer end()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		list, err := client.Projections(ctx)
		if err != nil {
			return adminapi.Projection{}, err
		}
		for _, p := range list {
			switch progress := of(p); {
			case p.Name != name:
			case progress == nil:
				return p, nil
			case progress.Error != "":
				return p, fmt.Errorf("the %s failed, the tables stay as they are: %s", work, progress.Error)
			default:
				show(uint64(progress.Done), uint64(progress.Total)) //nolint:gosec // not negative
			}
		}
		select {
		case <-ctx.Done():
			return adminapi.Projection{}, fmt.Errorf("the %s continues in the server: %w", work, ctx.Err())
		case <-tick.C:
		}
	}
}

type projectionsVerifyCommand struct {
	changing
	Name   string  `arg:"" help:"Name, as in the status."`
	Sample float64 `help:"Compare this percentage of the rows, chosen by chance." placeholder:"PERCENT" default:"100"`
}

// Run has a read model compared with its events, and waits for the result. It fails if they differ.
func (c *projectionsVerifyCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	before, err := client.Projections(ctx)
	if err != nil {
		return err
	}
	if err := client.Verify(ctx, c.Name, c.Sample); err != nil {
		return err
	}
	done, err := followWork(ctx, client, t, c.Name, "verification",
		func(p adminapi.Projection) *adminapi.Rebuild { return p.Verifying })
	if err != nil {
		return err
	}
	if done.Verified == nil {
		return errors.New("the result is not known: another server was asked for it, or the read model was rebuilt meanwhile")
	}
	i := slices.IndexFunc(before, func(p adminapi.Projection) bool { return p.Name == c.Name })
	stands := i >= 0 && before[i].Verified != nil && before[i].Verified.At.Equal(done.Verified.At)
	if err := c.print(t.out, done.Verified, func(w io.Writer) {
		if stands {
			row(w, "No row of the sample differs. What an earlier verification has found stands:")
		}
		for _, line := range verificationLines(w, c.Name, *done.Verified) {
			row(w, line)
		}
	}); err != nil {
		return err
	}
	if done.Verified.Differing > 0 {
		return fmt.Errorf("%s differs from the log: find out who changed it; carillon status names the repair", c.Name)
	}
	return nil
}

// verificationLines are lines about the result of a verification.
func verificationLines(w io.Writer, name string, v adminapi.Verification) []string {
	what := counted(int(v.Rows), "row")
	if v.Sample < 100 { //nolint:mnd // percent
		what = fmt.Sprintf("a sample of %s (%g %%)", what, v.Sample)
	}
	if v.Differing == 0 {
		return []string{fmt.Sprintf("%s agrees with the log: %s compared on %s", name, what, moment(w, &v.At))}
	}
	lines := []string{fmt.Sprintf("%s DIFFERS from the log in %s: %s compared on %s", name,
		counted(int(v.Differing), "row"), what, moment(w, &v.At))}
	for _, d := range v.Differences {
		lines = append(lines, "  "+d.String())
	}
	if more := int(v.Differing) - len(v.Differences); more > 0 {
		lines = append(lines, "  and "+counted(more, "other row"))
	}
	return lines
}
