package main

import (
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
	timestamps "carillon/eventstore/instant"
)

// remote is what every subcommand has that talks to a server.
type remote struct {
	config.Client `group:"Server"`

	JSON bool `help:"Print JSON instead of text."`
}

func (r *remote) client() (*adminclient.Client, error) {
	base, err := r.BaseURL()
	if err != nil {
		return nil, err
	}
	token, err := r.Token()
	if err != nil {
		return nil, err
	}
	return adminclient.New(base, token), nil
}

// print writes an answer: as JSON, or as the text that it means.
func (r *remote) print(out io.Writer, answer any, text func(io.Writer)) error {
	if !r.JSON {
		table := newTable(out)
		text(table)
		return table.Flush()
	}
	data, err := json.Marshal(answer, jsontext.WithIndent("  "), timestamps.JSON)
	if err != nil {
		return err
	}
	_, err = out.Write(append(data, '\n'))
	return err
}

// moment is an instant for a table.
func moment(at *time.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	return at.Local().Format("2006-01-02 15:04:05")
}
