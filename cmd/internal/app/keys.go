package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/command/sealing"
)

// openKeys checks the master key and the data keys before anything is served.
func (a *App) openKeys(ctx context.Context) error {
	master, err := a.cfg.Master()
	if err != nil {
		return fmt.Errorf("CARILLON_MASTER_KEY: %w", err)
	}
	ring, err := sealing.NewRing(master)
	if err != nil {
		return err
	}
	next, err := a.cfg.NextMaster()
	if err == nil && next != nil {
		err = ring.AddMaster(next)
	}
	if err != nil {
		return fmt.Errorf("CARILLON_MASTER_KEY, second entry: %w", err)
	}
	settings := custody.Config{
		Pool:       a.base.pool,
		Locks:      a.base.locks,
		Ring:       ring,
		File:       a.cfg.KeyHome(),
		Database:   a.cfg.KeyDatabase(),
		DataDir:    a.cfg.DataDir,
		Former:     a.cfg.OwnKeyDir(),
		AcceptLost: a.cfg.AcceptLostKeys,
		Store:      a.base.store,
		Pass:       a.gate.Pass,
		Log:        a.log,
	}
	if settings.File == "" {
		settings.Dir = a.cfg.KeyDir()
	}
	a.keys, err = custody.New(settings)
	if err != nil {
		return err
	}
	a.base.closers = append(a.base.closers, a.keys.Close)
	if a.cfg.KeyDir() == "" && a.cfg.KeyDatabase() == "" {
		a.log.Warn("Postgres is the only place that keeps the data keys: name a second one in CARILLON_KEY_STORE")
	}
	if err := a.keys.Compare(ctx); err != nil {
		return a.keyTrouble(err)
	}
	if lost := a.keys.Lost(); lost.Any() && !a.cfg.AcceptLostKeys {
		return fmt.Errorf("data keys are lost, and nothing that is sealed with them can be read: by %s. "+
			"Restore the key store or Postgres from a backup (docs/operate/keys-and-backup.md); or start with "+
			"--accept-lost-keys, rotate the secrets "+
			"of these destinations and set their addresses and headers again, and these client certificates (carillon org "+
			"certificate set)", lost)
	}
	if next != nil && a.cfg.MasterInFile() { // a rotation was cut off
		return a.RotateMaster(ctx)
	}
	return nil
}

// keyTrouble names the setting that repairs it.
func (a *App) keyTrouble(err error) error {
	var wrong *custody.WrongMasterError
	switch {
	case errors.As(err, &wrong) && a.cfg.ForgetMadeMaster():
		return &config.Setting{
			Variable: "CARILLON_MASTER_KEY",
			Issue: fmt.Sprintf("is not set, and there is no %s in %s; a new one does not fit, and was removed: %v. "+
				"Set the right one, or put it back into that file from a backup", config.MasterKeyFile, a.cfg.DataDir, wrong),
		}
	case errors.As(err, &wrong) && a.cfg.MasterInFile():
		return &config.Setting{
			Variable: "CARILLON_MASTER_KEY",
			Issue: fmt.Sprintf("is not set, and %s in %s is not the master key of this installation: %v. "+
				"Set the right one, or put it back into that file from a backup", config.MasterKeyFile, a.cfg.DataDir, wrong),
		}
	case errors.As(err, &wrong):
		return &config.Setting{
			Variable: "CARILLON_MASTER_KEY",
			Issue:    fmt.Sprintf("is not the master key of this installation: %v. Set the right one", wrong),
		}
	case errors.Is(err, custody.ErrNoEpoch):
		return &config.Setting{
			Variable: "CARILLON_KEY_STORE",
			Issue: fmt.Sprintf("must be the directory that was used before, or that the other processes use: %v. "+
				"Restore it from a backup; or start with --accept-lost-keys, which gives up what is sealed", err),
		}
	}
	return err
}

// RotateMaster lets the next master key take the place of the one in use, while everything goes on.
func (a *App) RotateMaster(ctx context.Context) error {
	next, err := a.cfg.NextMaster()
	if err == nil && next == nil && a.cfg.MasterInFile() && (a.cfg.EventStoreURL == "" || a.cfg.DatabaseURL == "") {
		next, err = a.cfg.MakeNextMaster()
	}
	switch {
	case err != nil:
		return err
	case next == nil:
		return &config.Setting{
			Variable: "CARILLON_MASTER_KEY",
			Issue: "must list the key in use, a comma and the next one, in every process, before the master key can be " +
				"rotated",
		}
	}
	keep := func() error { return nil }
	if a.cfg.MasterInFile() {
		keep = a.cfg.KeepNextMaster
	}
	if err := a.keys.RotateMaster(ctx, next, keep); err != nil {
		return err
	}
	a.log.Info("the master key was rotated: all data keys are wrapped by the next one")
	return nil
}

// RenewKeys makes what was shredded unreadable in Postgres' pages, log and backups now, and not within a day.
func (a *App) RenewKeys(ctx context.Context) error { return a.keys.Renew(ctx) }

// keysReady reports whether every live destination has its key, and every place of keys can be used.
func (a *App) keysReady() error {
	if a.keys == nil {
		return nil
	}
	if a.keys.Trouble() != nil {
		return adminapi.Unready("the key store can't be used: no destination can be made")
	}
	if lost := a.keys.Lost(); lost.Any() && !a.cfg.AcceptLostKeys {
		return adminapi.Unready("lost by " + lost.String())
	}
	return nil
}

// warnings are the warnings of readiness although the server is ready.
func (a *App) warnings() []string {
	warnings := slices.Concat(a.verifications.warnings(), a.expiries.warnings(), a.seal.Warnings())
	if a.retirement != nil {
		warnings = append(warnings, a.retirement.Warnings()...)
	}
	if lost := a.keys.Lost(); lost.Any() {
		return append([]string{"data keys: lost by " + lost.String()}, warnings...)
	}
	return warnings
}

func (a *App) keyMetrics() {
	a.Metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "carillon_credentials_forged_total",
		Help: "Uses and comparisons of credentials whose row in Postgres is not what the log says; they are refused.",
	}, func() float64 { return float64(a.proven.Forged()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_destinations_without_key",
		Help: "Live destinations whose data key is lost: their sealed data can't be opened.",
	}, func() float64 { return float64(len(a.keys.Lost().Destinations)) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_client_certificates_without_key",
		Help: "Client certificates whose data key is lost: their organizations' deliveries fail until they are set again.",
	}, func() float64 { return float64(len(a.keys.Lost().Certificates)) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_key_store_usable",
		Help: "0 while the directory of the data keys, or their copy, can't be used, else 1.",
	}, func() float64 { return oneIf(a.keys.Trouble() == nil) }))
}
