package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/command/sealing"
)

// openKeys checks the master key and the data keys before anything is served.
func (s *stores) openKeys(ctx context.Context) error {
	master, err := s.cfg.Master()
	if err != nil {
		return fmt.Errorf("CARILLON_MASTER_KEY: %w", err)
	}
	ring, err := sealing.NewRing(master)
	if err != nil {
		return err
	}
	next, err := s.cfg.NextMaster()
	if err == nil && next != nil {
		err = ring.AddMaster(next)
	}
	if err != nil {
		return fmt.Errorf("CARILLON_MASTER_KEY, second entry: %w", err)
	}
	settings := custody.Config{
		Pool:       s.pool,
		Locks:      s.locks,
		Ring:       ring,
		File:       s.cfg.KeyHome(),
		Database:   s.cfg.KeyDatabase(),
		DataDir:    s.cfg.DataDir,
		Former:     s.cfg.OwnKeyDir(),
		AcceptLost: s.cfg.AcceptLostKeys,
		Store:      s.store,
		Pass:       s.gate.Pass,
		Log:        s.log,
	}
	if settings.File == "" {
		settings.Dir = s.cfg.KeyDir()
	}
	s.keys, err = custody.New(settings)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.keys.Close)
	if s.cfg.KeyDir() == "" && s.cfg.KeyDatabase() == "" {
		s.log.Warn("Postgres is the only place that keeps the data keys: name a second one in CARILLON_KEY_STORE")
	}
	if err := s.keys.Compare(ctx); err != nil {
		return s.keyTrouble(err)
	}
	if lost := s.keys.Lost(); lost.Any() && !s.cfg.AcceptLostKeys {
		return fmt.Errorf("data keys are lost, and nothing that is sealed with them can be read: by %s. "+
			"Restore the key store or Postgres from a backup (docs/operate/keys-and-backup.md); or start with "+
			"--accept-lost-keys, rotate the secrets "+
			"of these destinations and set their addresses and headers again, and these client certificates (carillon org "+
			"certificate set)", lost)
	}
	if next != nil && s.cfg.MasterInFile() { // a rotation was cut off
		return s.RotateMaster(ctx)
	}
	return nil
}

// keyTrouble names the setting that repairs it.
func (s *stores) keyTrouble(err error) error {
	var wrong *custody.WrongMasterError
	switch {
	case errors.As(err, &wrong) && s.cfg.ForgetMadeMaster():
		return &config.Setting{
			Variable: "CARILLON_MASTER_KEY",
			Issue: fmt.Sprintf("is not set, and there is no %s in %s; a new one does not fit, and was removed: %v. "+
				"Set the right one, or put it back into that file from a backup", config.MasterKeyFile, s.cfg.DataDir, wrong),
		}
	case errors.As(err, &wrong) && s.cfg.MasterInFile():
		return &config.Setting{
			Variable: "CARILLON_MASTER_KEY",
			Issue: fmt.Sprintf("is not set, and %s in %s is not the master key of this installation: %v. "+
				"Set the right one, or put it back into that file from a backup", config.MasterKeyFile, s.cfg.DataDir, wrong),
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
func (s *stores) RotateMaster(ctx context.Context) error {
	next, err := s.cfg.NextMaster()
	if err == nil && next == nil && s.cfg.MasterInFile() && (s.cfg.EventStoreURL == "" || s.cfg.DatabaseURL == "") {
		next, err = s.cfg.MakeNextMaster()
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
	if s.cfg.MasterInFile() {
		keep = s.cfg.KeepNextMaster
	}
	if err := s.keys.RotateMaster(ctx, next, keep); err != nil {
		return err
	}
	s.log.Info("the master key was rotated: all data keys are wrapped by the next one")
	return nil
}

// RenewKeys makes what was shredded unreadable in Postgres' pages, log and backups now, and not within a day.
func (s *stores) RenewKeys(ctx context.Context) error { return s.keys.Renew(ctx) }

// keysReady reports whether every live destination has its key, and every place of keys can be used.
func (s *stores) keysReady() error {
	if s.keys == nil {
		return nil
	}
	if s.keys.Trouble() != nil {
		return adminapi.Unready("the key store can't be used: no destination can be made")
	}
	if lost := s.keys.Lost(); lost.Any() && !s.cfg.AcceptLostKeys {
		return adminapi.Unready("lost by " + lost.String())
	}
	return nil
}

func (s *stores) keyMetrics() {
	s.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_destinations_without_key",
		Help: "Live destinations whose data key is lost: their sealed data can't be opened.",
	}, func() float64 { return float64(len(s.keys.Lost().Destinations)) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_client_certificates_without_key",
		Help: "Client certificates whose data key is lost: their organizations' deliveries fail until they are set again.",
	}, func() float64 { return float64(len(s.keys.Lost().Certificates)) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_key_store_usable",
		Help: "0 while the directory of the data keys, or their copy, can't be used, else 1.",
	}, func() float64 { return boolToFloat(s.keys.Trouble() == nil) }))
}
