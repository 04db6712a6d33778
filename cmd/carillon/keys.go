package main

import (
	"context"
	"io"

	"carillon/cmd/internal/adminclient"
)

type keysCommand struct {
	RotateMaster keysRotateMasterCommand `cmd:"" help:"Replace the master key by the next one."`
	Renew        keysRenewCommand        `cmd:"" help:"Renew the epoch key now, so that shredded keys are unreadable in Postgres' files and backups."`
}

type keysRotateMasterCommand struct{ changing }

// Help implements kong.HelpProvider.
func (keysRotateMasterCommand) Help() string {
	return `Wraps all data keys by the next master key while the server runs. If it is interrupted, call it again.

If the master key is in the data directory (master.key), the server generates the next one there: back the file
up again. Otherwise set CARILLON_MASTER_KEY to the key in use, a comma and the next key in every process, start
them again one after the other, run this command once, and then leave only the next key.`
}

// Run has the server rotate, and waits until it is done.
func (c *keysRotateMasterCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	err := client.Post(ctx, nil, "keys", "rotate-master")
	return c.answer(t.out, done{true}, err, func(w io.Writer) {
		row(w, "all data keys are wrapped by the next master key")
	})
}

type keysRenewCommand struct{ changing }

// Run has the server renew the epoch key, and waits until it is done.
func (c *keysRenewCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	err := client.Post(ctx, nil, "keys", "renew")
	return c.answer(t.out, done{true}, err, func(w io.Writer) {
		row(w, "epoch key renewed; shredded keys are unreadable")
	})
}

// done is printed with --json by commands that have no other result.
type done struct {
	Done bool `json:"done"`
}
