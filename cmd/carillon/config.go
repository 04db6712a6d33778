package main

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"carillon/cmd/internal/config"
	"carillon/eventstore/durable"
)

type configCommand struct {
	Show configShowCommand `cmd:"" help:"Show every setting of a server, and where its value comes from."`
}

type configShowCommand struct {
	config.Config
	printing
}

// Help implements kong.HelpProvider.
func (configShowCommand) Help() string {
	return `Takes the flags and variables of "carillon serve", and refuses what that refuses. Secrets are hidden.

  carillon config show
  carillon config show --roles api --json`
}

// setting is one of a server, as it would be used.
type setting struct {
	Flag     string `json:"flag"`
	Variable string `json:"variable,omitempty"`
	Value    string `json:"value"`
	From     string `json:"from"` // flag, default, or the variable
}

// Run prints the settings in the order of the help.
func (c *configShowCommand) Run(t terminal, parsed *kong.Context) error {
	if err := config.CheckReplaced(os.Environ()); err != nil {
		return err
	}
	var settings []setting
	for _, flag := range parsed.Selected().Flags {
		if flag.Name != "json" {
			settings = append(settings, settingOf(parsed, flag))
		}
	}
	return c.print(t.out, settings, func(w io.Writer) {
		row(w, "SETTING", "VALUE", "FROM")
		for _, s := range settings {
			row(w, "--"+s.Flag, cmp.Or(s.Value, "–"), s.From)
		}
	})
}

func settingOf(parsed *kong.Context, flag *kong.Flag) setting {
	s := setting{
		Flag:  flag.Name,
		Value: shownValue(flag.Target),
		From:  "default",
	}
	given := slices.ContainsFunc(parsed.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == flag.Name })
	file := config.FileVariable(flag)
	if len(flag.Envs) > 0 {
		s.Variable = flag.Envs[0]
	}
	set := slices.IndexFunc(flag.Envs, func(name string) bool { return os.Getenv(name) != "" })
	switch {
	case given:
		s.From = "flag"
	case set >= 0:
		s.From = flag.Envs[set]
	case file != "" && os.Getenv(file) != "":
		s.From = file
	}
	return s
}

// shownValue is a value as a flag takes it, without secrets.
func shownValue(of reflect.Value) string {
	text := fmt.Sprint(of.Interface())
	if _, own := of.Interface().(fmt.Stringer); !own && of.Kind() == reflect.Slice {
		text = strings.ReplaceAll(strings.Trim(text, "[]"), " ", ",")
	}
	return text
}

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
