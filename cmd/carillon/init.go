package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"carillon/eventstore/durable"
)

type initCommand struct {
	File string `arg:"" help:"File to write, readable by this user only; - is standard output. One that is there is kept."`
}

// Help implements kong.HelpProvider.
func (initCommand) Help() string {
	return `Writes variables for "docker compose --env-file": passwords of the stores, master key and admin token, each of
32 random bytes. Keep the file: without the master key nothing that is sealed can be read.

  carillon init deploy/.env`
}

// Run writes the file.
func (c *initCommand) Run(t terminal) error {
	if c.File == "-" {
		return newSecrets(t.raw)
	}
	if _, err := os.Lstat(c.File); !os.IsNotExist(err) {
		return fmt.Errorf("%s is there already, and is kept: the stores have its passwords", c.File)
	}
	if err := durable.Write(c.File, newSecrets); err != nil {
		return err
	}
	row(t.out, "secrets of a new installation are in "+c.File+": keep it")
	return nil
}

// newSecrets writes the variables of deploy/compose.yaml that have no default.
func newSecrets(to io.Writer) error {
	for _, secret := range []struct {
		variable string
		encode   func([]byte) string
	}{
		{"EVENTSTORE_PASSWORD", hex.EncodeToString},
		{"POSTGRES_PASSWORD", hex.EncodeToString},
		{"CARILLON_MASTER_KEY", base64.StdEncoding.EncodeToString},
		{"CARILLON_ADMIN_TOKEN", hex.EncodeToString},
	} {
		random := make([]byte, 32)
		_, _ = rand.Read(random) // never fails
		if _, err := fmt.Fprintf(to, "%s=%s\n", secret.variable, secret.encode(random)); err != nil {
			return err
		}
	}
	return nil
}
