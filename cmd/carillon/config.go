package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"carillon/cmd/internal/config"
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
