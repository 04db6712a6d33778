package main

import (
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/eventstore/instant"
)

// remote has the flags of every subcommand that calls a server.
type remote struct {
	config.Client `group:"Server"`
	printing

	reason string // of a change. Optional
}

// changing has the flags of every subcommand that changes something on a server.
type changing struct {
	remote
	because
}

// because has the flag that says why something is changed.
type because struct {
	Reason string `placeholder:"TEXT" help:"Reason for the audit trail, at most 500 characters."`
}

// Validate implements kong.Validatable. A header can't carry what it refuses.
func (b *because) Validate() error { return command.CheckReason("--reason", b.Reason) }

// AfterApply implements kong.AfterApply.
func (c *changing) AfterApply() error { //nolint:unparam // as kong calls it
	c.reason = c.Reason
	return nil
}

// ProvideClient connects for every subcommand whose Run takes a client.
func (r *remote) ProvideClient() (*adminclient.Client, error) {
	base, err := r.BaseURL()
	if err != nil {
		return nil, err
	}
	token, err := r.Token()
	if err != nil {
		return nil, err
	}
	return adminclient.New(base, token).WithReason(r.reason), nil
}

// printing has the flag of every subcommand that prints an answer.
type printing struct {
	JSON bool `help:"Print JSON instead of text."`
}

// print writes an answer: as JSON, or as the text that it means.
func (p *printing) print(out io.Writer, answer any, text func(io.Writer)) error {
	if !p.JSON {
		table := newTable(out)
		text(zoned{table, zoneOf(out)})
		return table.Flush()
	}
	data, err := json.Marshal(answer, jsontext.WithIndent("  "), json.Deterministic(true), instant.JSON)
	if err != nil {
		return err
	}
	_, err = out.Write(append(data, '\n'))
	return err
}

// answer prints the answer of a call, or returns the error of one that failed.
func (p *printing) answer(out io.Writer, answer any, err error, text func(io.Writer)) error {
	if err != nil {
		return err
	}
	return p.print(out, answer, text)
}

// ended prints that something was deleted or revoked, or returns the error of the call.
func (p *printing) ended(out io.Writer, how, what string, err error) error {
	return p.answer(out, map[string]string{how: what}, err, func(w io.Writer) { row(w, how+" "+what) })
}
