package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminclient"
	"carillon/eventstore/durable"
)

type auditCommand struct {
	List         auditListCommand         `cmd:"" default:"withargs" help:"List the changes of everything, newest first."`
	Organization auditOrganizationCommand `cmd:"" help:"List the changes of everything that belongs to an organization, also after its deletion."`
	Feed         auditThingCommand        `cmd:"" set:"thing=Id of the feed, or its beginning; deleted ones keep theirs." help:"List the changes of a feed, its sources and its shares."`
	Source       auditThingCommand        `cmd:"" set:"thing=Id of the source, or its beginning." help:"List the changes of a source, and the feeds that it was attached to."`
	Operator     auditOperatorCommand     `cmd:"" help:"List the tokens and actions of an operator, or of all."`
	Key          auditKeyCommand          `cmd:"" help:"List the life of an API key, and what was changed with it."`
	Person       auditPersonCommand       `cmd:"" help:"List what a person changed at the console, and was shown."`
	Secret       auditThingCommand        `cmd:"" set:"thing=Id of the secret, or its beginning, as \"carillon audit destination\" shows it; expired ones keep theirs." help:"List the life of a secret, and to whom it was shown."`
	Destination  auditDestinationCommand  `cmd:"" help:"Show every change of a destination's secrets, status and settings, and every disclosure: time, change, actor, reason."`
	Seal         auditSealCommand         `cmd:"" help:"Sign a tree head of the log, by which changes to it are found."`
	Verify       auditVerifyCommand       `cmd:"" help:"Verify the log against its tree heads, or an export with proofs."`
	Show         auditShowCommand         `cmd:"" help:"Show an export with proofs in words, offline."`
	Export       auditExportCommand       `cmd:"" help:"Export the stored events of a thing with proofs that they are in the log."`
}

type auditDestinationCommand struct {
	remote
	ID     recorded `arg:"" help:"Id of the destination, its beginning, or the external id; deleted ones keep theirs."`
	At     timeFlag `xor:"what" placeholder:"TIME" help:"Show the state as of this time: a time, a date or how long ago (2026-11-21T12:00:00Z, 2026-11-21, 7d). Default: now."`
	Export string   `xor:"what" placeholder:"FILE" help:"Write the whole history to a file as NDJSON, one change or disclosure a line; - is standard output."`
}

// Help implements kong.HelpProvider.
func (auditDestinationCommand) Help() string {
	return `Use the admin token, or an auditor's (carillon auditor issue), in CARILLON_ADMIN_TOKEN. Secrets are
named by their ids; their material is never shown. --json and --export also contain event
ids, positions in the log, correlation and causation.`
}

// Run prints the timeline, or writes the export.
func (c *auditDestinationCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	id, err := c.ID.find(ctx, client)
	if err != nil {
		return err
	}
	if c.Export != "" {
		path := adminclient.RecordPath("destinations", id.String(), nil)
		return c.export(t, c.Export, changes, func(to io.Writer) error { return client.ExportRecord(ctx, path, to) })
	}
	audit, err := client.Audit(ctx, id, c.At.at(t))
	return c.answer(t.out, audit, err, func(w io.Writer) { _, _ = io.WriteString(w, drawAudit(audit, zoneOf(w))) })
}

// recorded is a destination of the audit trail: its id, the beginning of it, or its external id.
type recorded string

// find returns the id. Which destinations there are is on record, also for auditors.
func (d recorded) find(ctx context.Context, client *adminclient.Client) (uuid.UUID, error) {
	if id, err := uuid.Parse(string(d)); err == nil && len(d) == idLength {
		return id, nil
	}
	found, err := client.FindRecorded(ctx, string(d))
	if err != nil {
		return uuid.Nil, err
	}
	switch len(found) {
	case 0:
		return uuid.Nil, fmt.Errorf("no destination has or had an id that begins with %q, or this external id", d)
	case 1:
		return found[0].ID, nil
	}
	names := make([]string, len(found))
	for i, one := range found {
		names[i] = fmt.Sprintf("%s (%s)", one.ID, one.Name)
	}
	return uuid.Nil, fmt.Errorf("%q is ambiguous: %s", d, strings.Join(names, ", "))
}

// changes describes an export with a change a line.
func changes(lines int) (n int, text string) { return lines, fmt.Sprintf("%d changes", lines) }

// exported is the result of an export to a file.
type exported struct {
	Exported int    `json:"exported"`
	File     string `json:"file"`
}

// export writes to a file and prints what it has then, or to standard output if the path is "-".
func (p *printing) export(
	t terminal, path string, contents func(lines int) (n int, text string), write func(io.Writer) error,
) error {
	if path == "-" {
		return write(t.raw)
	}
	var lines lineCounter
	err := durable.Write(path, func(file io.Writer) error { return write(io.MultiWriter(file, &lines)) })
	if err != nil {
		return err
	}
	n, text := contents(lines.count)
	return p.print(t.out, exported{n, path}, func(w io.Writer) { row(w, "exported "+text+" to "+path) })
}

type lineCounter struct{ count int }

// Write implements io.Writer.
func (l *lineCounter) Write(p []byte) (int, error) {
	l.count += bytes.Count(p, []byte{'\n'})
	return len(p), nil
}
