package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
)

type publishCommand struct {
	changing
	File string `arg:"" help:"A file with one JSON object a line, or - for standard input."`
}

// Help implements kong.HelpProvider.
func (publishCommand) Help() string {
	return `Each line is one event:

  {"id": UUID, "type": "news.item.added", "source": "/news/local", "subject": "item-7", "time": "2026-11-21T12:00:00Z",
   "feedType": "news", "feedId": UUID, "organizationId": UUID, "data": {…}}

Required are type, source, data, and a feed or an organization that exists. The source is a URI-reference, the
time from 1970 to a day ahead. The data must match the type's
schema, see GET /events/types. An event with an id is published once, however often it is sent: after a failure,
send the file again. Another event with the same id is refused, by its line. If a file of at most 1 MiB has a
line that is refused, nothing of it is published; of a larger one, and of standard input, the lines before it
are.`
}

// Run publishes the file, with a progress bar on a terminal.
func (c *publishCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	events, size := t.in, int64(-1)
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if info.IsDir() {
			return fmt.Errorf("%s is a directory: name a file, or - for standard input", c.File)
		}
		events = file
		if info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	if config.IsTerminal(t.err) && size != 0 {
		bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(t.err), progressbar.OptionShowBytes(true),
			progressbar.OptionSetDescription("publishing"), progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth())
		defer func() { _ = bar.Finish() }()
		events = io.TeeReader(events, bar)
	}
	published, err := client.Publish(ctx, events, size)
	return c.answer(t.out, published, err, func(w io.Writer) {
		row(w, fmt.Sprintf("published %d events", published.Published))
	})
}
