package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
)

type eventstoreCopyCommand struct {
	nodeDirectory

	From     config.Address `placeholder:"URL|DIR" help:"Source: a connection string, or the directory of a node. Empty: the node of the data directory."`
	To       config.Address `required:"" env:"CARILLON_EVENTSTORE_COPY_TO" placeholder:"URL|DIR" help:"Target: a connection string, or the directory of a stopped node. It must be empty or contain a part of the copy."`
	CopyOnly bool           `xor:"compare" help:"Skip comparison and metadata, for a first run while the source is in use."`
	Streams  string         `xor:"compare" type:"path" placeholder:"FILE" help:"Write the comparison to a file: each stream's event count, last revision and SHA-256, one JSON object a line."`
	printing
}

// Help implements kong.HelpProvider.
func (eventstoreCopyCommand) Help() string {
	return `Events keep their streams, revisions, ids, types, data and order; the time when they were first
recorded is kept in their metadata. The target records the progress: an interrupted copy continues, a second run
adds new events. At the end both sides are compared, event by event and by count, SHA-256 and last revision of
each stream, and the streams' metadata is set. An election in a cluster is waited for, for two minutes.

To move a server: copy with --copy-only while it runs, stop it, copy again, start it with CARILLON_EVENTSTORE_URL.

  carillon eventstore copy --to 'esdb://admin:…@node1:2113,node2:2113,node3:2113?tls=true'`
}

// Run copies and compares.
func (c *eventstoreCopyCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	log := cli.Logger(os.Stderr)
	source, end, err := openLog(ctx, c.From.Reveal(), c.path(), log)
	if err != nil {
		return err
	}
	defer end()
	target, endTarget, err := c.target(log)
	if err != nil {
		return err
	}
	defer endTarget()
	var held []copying.Stream
	progress := newCopyProgress(t)
	started := time.Now()
	result, err := copying.Copy(ctx, source, target, copying.Options{
		CopyOnly: c.CopyOnly,
		Streams:  func(streams []copying.Stream) { held = streams },
		Report:   progress.report,
	})
	progress.end()
	if err != nil {
		if result.Copied > 0 {
			err = fmt.Errorf("%w (%d events were copied; the same command continues)", err, result.Copied)
		}
		return err
	}
	if c.Streams != "" {
		if err := writeStreams(c.Streams, held); err != nil {
			return fmt.Errorf("--streams: %w", err)
		}
	}
	return c.print(t.out, result, func(w io.Writer) {
		row(w, copyText(result, c.CopyOnly)+" in "+since(started))
		if text := leftOutText(result.LeftOut); text != "" {
			row(w, text)
		}
	})
}

// leftOutShown is how many of the streams that were left out are named; all of them are in JSON.
const leftOutShown = 10

// leftOutText counts what was not copied, and names the streams with most events.
func leftOutText(streams []copying.LeftOut) string {
	if len(streams) == 0 {
		return ""
	}
	events := uint64(0)
	for _, one := range streams {
		events += one.Events
	}
	most := slices.SortedStableFunc(slices.Values(streams),
		func(a, b copying.LeftOut) int { return cmp.Compare(b.Events, a.Events) })
	text := fmt.Sprintf("not copied: %d events in %d streams that begin with $:", events, len(streams))
	for _, one := range most[:min(len(most), leftOutShown)] {
		text += fmt.Sprintf(" %s (%d)", one.Stream, one.Events)
	}
	if more := len(most) - leftOutShown; more > 0 {
		text += fmt.Sprintf(" and %d more, which --json names", more)
	}
	return text
}

func copyText(r copying.Result, copyOnly bool) string {
	text := fmt.Sprintf("copied %d events", r.Copied)
	if r.Resumed {
		text += " to the earlier ones"
	}
	if r.Filled > 0 {
		text += fmt.Sprintf(", with %d hidden ones in place of events that the source has removed", r.Filled)
	}
	if copyOnly {
		return text + ", compared nothing yet,"
	}
	text += fmt.Sprintf("; all %d in %d streams compared and equal, each by count, SHA-256 and last revision, "+
		"over all of them %s; metadata of %d streams",
		r.Compared, r.Streams, r.Digest, r.Metadata)
	if r.Gone > 0 {
		text += fmt.Sprintf("; %d that the source has removed since", r.Gone)
	}
	return text
}

func writeStreams(path string, streams []copying.Stream) (err error) {
	file, err := os.Create(path) //nolint:gosec // the operator's own
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewWriter(file)
	encoder := json.NewEncoder(lines)
	for _, one := range streams {
		if err := encoder.Encode(one); err != nil {
			return err
		}
	}
	return lines.Flush()
}

// openLog opens a store by its address: a server, a running node of a directory, or an unused directory. Empty means
// the usual directory.
func openLog(ctx context.Context, from, usual string, log *slog.Logger) (*esdb.Store, func(), error) {
	if strings.Contains(from, "://") {
		store, err := esdb.Open(from, log)
		if err != nil {
			return nil, nil, fmt.Errorf("--from: %w", err)
		}
		return store, func() { _ = store.Close() }, nil
	}
	if from == "" {
		from = usual
	}
	socket, running, err := maintenance.Protocol(ctx, from)
	switch {
	case err != nil:
		return nil, nil, err
	case running && socket == "":
		return nil, nil, fmt.Errorf("--from: a node serves %s: name its connection string instead", from)
	case running:
		store, err := esdb.OpenUnix(socket, log)
		if err != nil {
			return nil, nil, err
		}
		return store, func() { _ = store.Close() }, nil
	}
	if !maintenance.Holds(from) {
		return nil, nil, fmt.Errorf("--from: %s: %w", from, maintenance.ErrNoStore)
	}
	return maintenance.OpenAlone(from, log)
}

func (c *eventstoreCopyCommand) target(log *slog.Logger) (*esdb.Store, func(), error) {
	to := c.To.Reveal()
	if !strings.Contains(to, "://") {
		return maintenance.OpenAlone(to, log)
	}
	store, err := esdb.Open(to, log)
	if err != nil {
		return nil, nil, fmt.Errorf("--to: %w", err)
	}
	return store, func() { _ = store.Close() }, nil
}

const rateOver = 30 * time.Second

// copyProgress shows how far a copy is, how fast it goes, and how long it will still take.
type copyProgress struct {
	*statusLine

	phase   string
	samples []progressSample // recent ones, for the rate
}

type progressSample struct {
	at time.Time
	copying.Progress
}

func newCopyProgress(t terminal) *copyProgress { return &copyProgress{statusLine: newStatusLine(t)} }

// report implements the callback of copying.Options.
func (p *copyProgress) report(now copying.Progress) {
	at := time.Now()
	if now.Phase != p.phase {
		p.phase, p.samples, p.shown = now.Phase, nil, at
	}
	for len(p.samples) > 1 && at.Sub(p.samples[1].at) > rateOver {
		p.samples = p.samples[1:]
	}
	if n := len(p.samples); n < 2 || at.Sub(p.samples[n-1].at) >= time.Second {
		p.samples = append(p.samples, progressSample{at: at, Progress: now})
	}
	if p.due(at) {
		p.show(at, progressText(p.samples[0].Progress, now, at.Sub(p.samples[0].at)))
	}
}

// progressText describes the progress of a phase since an earlier sample.
func progressText(then, now copying.Progress, elapsed time.Duration) string {
	share := 100.0
	if now.Total > 0 {
		share = 100 * float64(now.Done) / float64(now.Total)
	}
	text := fmt.Sprintf("%s: %.1f %%", now.Phase, share)
	if elapsed < time.Second || now.Done <= then.Done {
		return text
	}
	what := "events"
	if now.Phase == copying.PhaseDescribe {
		what = "streams"
	}
	left := time.Duration(float64(now.Total-now.Done) / float64(now.Done-then.Done) * float64(elapsed))
	return fmt.Sprintf("%s, %.0f %s/s, about %s left", text, float64(now.Events-then.Events)/elapsed.Seconds(), what,
		max(left.Round(time.Second), time.Second))
}
