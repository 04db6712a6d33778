package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/apiclient"
	"carillon/eventstore/seal"
)

type auditSealCommand struct {
	changing

	Show bool `help:"Show the last tree head and the public key, and sign none."`
}

// Help implements kong.HelpProvider.
func (auditSealCommand) Help() string {
	return `A tree head covers all events of the log, and is signed by the server's key. The server signs
one every hour. Keep heads and the public key somewhere that the server's operators can't change:
"carillon audit verify --head FILE" finds by them a log that was written again as a whole.`
}

// Run signs a tree head and prints it.
func (c *auditSealCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	ask := client.Seal
	if c.Show {
		ask = client.LastSeal
	}
	state, err := ask(ctx)
	return c.answer(t.out, state, err, func(w io.Writer) { sealText(w, state, c.Show) })
}

func sealText(w io.Writer, state adminapi.SealState, shown bool) {
	if !shown && state.New == 0 {
		row(w, "nothing new since the last tree head")
	}
	text := base64.StdEncoding.EncodeToString
	if h := state.Head; h != nil {
		row(w, "events", strconv.FormatUint(h.Size, 10))
		row(w, "signed", h.At)
		row(w, "root", text(h.Root))
		row(w, "signature", text(h.Signature))
	} else {
		row(w, "no tree head yet")
	}
	row(w, "public key", seal.KeyText(state.Key))
}

// sealLine is the line of "carillon status" about the last tree head.
func sealLine(state adminapi.SealState, now time.Time) string {
	if state.Head == nil {
		return "log not sealed yet"
	}
	return fmt.Sprintf("log sealed %s ago: %d events", now.Sub(state.Head.At).Round(time.Second), state.Head.Size)
}

type auditExportCommand struct {
	remote

	ID       recorded `arg:"" help:"Id of an organization, feed, source, destination, subscription, delivery or another thing that has events; of a destination also the beginning, or the external id. Deleted ones keep theirs."`
	Proof    bool     `required:"" help:"With the proof of each event, for \"carillon audit verify FILE\"."`
	To       string   `short:"o" default:"-" placeholder:"FILE" help:"File to write; - is standard output."`
	Head     string   `type:"existingfile" placeholder:"FILE" help:"Tree heads that were kept elsewhere. The export proves that the log continues the last one that it can."`
	Complete bool     `help:"Exit with 3 if anything is missing, such as events that are not sealed yet."`
}

// Help implements kong.HelpProvider.
func (auditExportCommand) Help() string {
	return `The file has the events as they are stored, with secrets sealed, the last tree head, the proof of
each event and the public key; of a destination also its subscriptions and the disclosures of its
secrets. It is verified without a server. What is missing is written to standard error: events that
are not sealed yet, if the token is an auditor's, and those of other organizations.

  carillon audit export ID --proof -o proof.ndjson
  carillon audit verify proof.ndjson --key KEY`
}

// Run writes the export. Events that are not sealed yet are sealed before, if the token may.
func (c *auditExportCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	id, err := c.ID.find(ctx, client)
	if err != nil {
		return err
	}
	if _, err := client.Seal(ctx); err != nil {
		var refused *apiclient.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized { // an auditor's token
			return err
		}
	}
	since, err := c.since(ctx, client)
	if err != nil {
		return err
	}
	contents := func(lines int) (int, string) {
		events := lines - 2 //nolint:mnd // the first line and the last
		return events, counted(events, "event")
	}
	var first exportHead
	err = c.export(t, c.To, contents, func(to io.Writer) error {
		return client.ExportProof(ctx, id, since, io.MultiWriter(to, &first))
	})
	if err != nil {
		return err
	}
	head, err := seal.ReadExportHead(first.line)
	if err != nil {
		return err
	}
	return c.incomplete(ctx, t, client, head)
}

// incomplete reports what an export lacks.
func (c *auditExportCommand) incomplete(
	ctx context.Context, t terminal, client *adminclient.Client, head *seal.ExportHead,
) error {
	missing := head.Missing()
	for _, text := range missing {
		row(t.err, "missing: "+text)
	}
	if head.Unsealed > 0 {
		state, err := client.LastSeal(ctx)
		if err != nil {
			return err
		}
		if state.Next != nil {
			row(t.err, "the next tree head is signed by "+moment(t.out, state.Next))
		}
	}
	if c.Complete && len(missing) > 0 {
		return &exitError{error: errors.New("the export is not complete"), code: exitIncomplete}
	}
	return nil
}

// exportHead keeps the first line that is written, without its end.
type exportHead struct {
	line  []byte
	ended bool
}

// Write implements io.Writer.
func (l *exportHead) Write(p []byte) (int, error) {
	if !l.ended {
		part, _, ended := bytes.Cut(p, []byte{'\n'})
		l.line, l.ended = append(l.line, part...), ended
	}
	return len(p), nil
}

// since returns the size of the largest head that was kept elsewhere and is not larger than the server's.
func (c *auditExportCommand) since(ctx context.Context, client *adminclient.Client) (size uint64, err error) {
	if c.Head == "" {
		return 0, nil
	}
	heads, err := headsFrom(c.Head)
	if err != nil {
		return 0, err
	}
	state, err := client.LastSeal(ctx)
	if err != nil || state.Head == nil {
		return 0, err
	}
	for _, head := range heads {
		if head.Size <= state.Head.Size {
			size = max(size, head.Size)
		}
	}
	return size, nil
}

// headsFrom reads heads that were kept elsewhere.
func headsFrom(path string) ([]seal.Head, error) {
	file, err := os.Open(path) //nolint:gosec // the operator's own
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	heads, err := seal.ReadHeads(file)
	if err != nil {
		return nil, fmt.Errorf("--head %s: %w", path, err)
	}
	return heads, nil
}
