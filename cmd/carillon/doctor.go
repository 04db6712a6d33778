package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/doctor"
)

type doctorCommand struct {
	config.Config
	printing

	Backup string   `placeholder:"DIR" help:"Directory of the newest backup, to see how old it is."`
	URL    string   `name:"url" placeholder:"URL" help:"Address by which clients reach the API, to see what its proxies change."`
	Reach  []string `placeholder:"URL,..." help:"Receivers or sites that must be reachable from here."`
}

// Help implements kong.HelpProvider.
func (doctorCommand) Help() string {
	return `Takes the settings of "carillon serve", and works before the first start and beside a running server. It
changes nothing. Exit code 1 says that something failed, which keeps the server from working; warnings do not.

  carillon doctor
  carillon doctor --url https://events.example.com --backup /backups/today --reach https://hooks.example.com`
}

// Run makes all checks.
func (c *doctorCommand) Run(ctx context.Context, t terminal, model *kong.Kong) error {
	if err := config.CheckReplaced(os.Environ()); err != nil {
		return err
	}
	patient := &doctor.Patient{
		Config:  c.Config,
		Unknown: unknownVariables(model.Model, os.Environ()),
		Backups: c.Backup,
		Public:  c.URL,
		Reach:   c.Reach,
		Now:     time.Now,
	}
	var findings []doctor.Finding
	failed := false
	doctor.Examine(ctx, patient, func(f doctor.Finding) {
		findings = append(findings, f)
		failed = failed || f.State == doctor.Failed
	})
	err := c.print(t.out, findings, func(w io.Writer) {
		for _, f := range findings {
			row(w, f.State, f.Check, f.Found)
			if f.Remedy != "" {
				row(w, "", "", "→ "+f.Remedy)
			}
		}
	})
	if err == nil && failed {
		err = errors.New("something failed: see above")
	}
	return err
}
