package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/projections/postgres"
)

type dataCommand struct {
	List   dataListCommand   `cmd:"" help:"List the Postgres clusters that servers run by root keep outside their data directories."`
	Remove dataRemoveCommand `cmd:"" help:"Remove a server's data directory with its Postgres cluster, or an orphaned cluster."`
}

type dataRemoveCommand struct {
	Dir string `arg:"" type:"existingdir" placeholder:"DIR" help:"A data directory, or a cluster that \"carillon data list\" shows as left behind."`
	Yes bool   `help:"Delete without confirmation."`
	printing
}

// Help implements kong.HelpProvider.
func (dataRemoveCommand) Help() string {
	return `Without --yes it only lists the data to be removed. Data of a running server is never removed.

If root runs a server whose private Postgres can't reach the data directory, that Postgres keeps its cluster in
/var/lib/carillon. It stays behind if the data directory is removed by other means; "carillon data list" shows it then.`
}

type dataListCommand struct {
	ClustersDir string `hidden:"" help:"Directory of the Postgres clusters of servers that run as root."`
	printing
}

// Run lists the clusters of all data directories of this machine.
func (c *dataListCommand) Run(t terminal) error {
	clusters, err := clustersIn(c.ClustersDir)
	return c.answer(t.out, clusters, err, func(w io.Writer) {
		if len(clusters) == 0 {
			row(w, "no clusters outside data directories")
		}
		clusterLines(w, clusters)
	})
}

// cluster is one that is kept outside of the data directory that it is for.
type cluster struct {
	Dir    string `json:"dir"`
	For    string `json:"for"`
	Status string `json:"status"` // running, stopped, or left behind
}

const leftBehind = "left behind"

func clustersIn(base string) ([]cluster, error) {
	homes, err := postgres.Homes(base)
	if err != nil {
		return nil, err
	}
	clusters := make([]cluster, len(homes))
	for i, home := range homes {
		status := "stopped"
		switch {
		case home.InUse:
			status = "running"
		case home.Left:
			status = leftBehind
		}
		clusters[i] = cluster{Dir: home.Dir, For: home.For, Status: status}
	}
	return clusters, nil
}

func clusterLines(w io.Writer, clusters []cluster) {
	for _, c := range clusters {
		line := fmt.Sprintf("Postgres cluster %s of %s: %s", c.Dir, c.For, c.Status)
		if c.Status == leftBehind {
			line += "; \"carillon data remove " + c.Dir + "\" removes it"
		}
		row(w, line)
	}
}

// removedDir is a directory to be removed, and the data that is lost with it.
type removedDir struct {
	Dir   string   `json:"dir"`
	Holds []string `json:"holds"`
}

// removal is the answer in JSON.
type removal struct {
	Removed bool         `json:"removed"`
	Dirs    []removedDir `json:"dirs"`
}

// Run removes the directory, or says what would be lost.
func (c *dataRemoveCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	dir, err := filepath.Abs(c.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return err
	}
	plan, err := removalOf(ctx, dir)
	if err != nil {
		return err
	}
	answer := removal{Removed: c.Yes, Dirs: plan}
	if c.Yes {
		log := cli.Logger(os.Stderr)
		for _, d := range plan { // the data directory comes last: it is by it that the others are found
			if d.Dir == dir && isData(dir) {
				if err := postgres.Remove(ctx, filepath.Join(dir, "postgres"), log); err != nil {
					return stillRunning(err)
				}
				if err := os.RemoveAll(dir); err != nil {
					return err
				}
			} else if err := postgres.Remove(ctx, d.Dir, log); err != nil {
				return stillRunning(err)
			}
		}
	}
	err = c.print(t.out, answer, func(w io.Writer) {
		for _, d := range plan {
			row(w, map[bool]string{true: "removed ", false: "would remove "}[c.Yes]+d.Dir)
			for _, what := range d.Holds {
				row(w, "  "+what)
			}
		}
	})
	if err == nil && !c.Yes {
		return errors.New("this deletes permanently; confirm with --yes")
	}
	return err
}

func stillRunning(err error) error {
	if errors.Is(err, postgres.ErrInUse) {
		return fmt.Errorf("a server is running on it: stop it first (%w)", err)
	}
	return err
}

// removalOf says what goes with a directory, or why it can't go.
func removalOf(ctx context.Context, dir string) ([]removedDir, error) {
	if isData(dir) {
		return dataRemoval(ctx, dir)
	}
	home, err := postgres.HomeAt(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is neither a data directory nor a Postgres cluster of one: nothing was removed",
			dir)
	case err != nil:
		return nil, err
	case home.InUse:
		return nil, fmt.Errorf("a server is running on %s, for %s: stop it first", dir, home.For)
	case !home.Left:
		return nil, fmt.Errorf("%s is in use by the data directory %s: remove that, and this goes with it", dir,
			filepath.Dir(home.For))
	}
	return []removedDir{{Dir: dir, Holds: clusterHolds}}, nil
}

var clusterHolds = []string{
	"the read models, which are rebuilt from the events if these still exist",
	"THE DATA KEYS in Postgres: if no key store or backup has them too, no stored secret can ever be read again",
}

// isData reports whether a server has kept its data in a directory.
func isData(dir string) bool {
	for _, name := range []string{config.MasterKeyFile, config.AdminTokenFile, "postgres", "eventstore"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func dataRemoval(ctx context.Context, dir string) (plan []removedDir, err error) {
	database, events := filepath.Join(dir, "postgres"), filepath.Join(dir, "eventstore")
	if missing(database) && missing(events) {
		return nil, fmt.Errorf(
			"the stores of %s are elsewhere, so it is unknown whether a server runs on it: remove it by hand, "+
				"with %s in it", dir, config.MasterKeyFile)
	}
	if _, running, err := maintenance.Protocol(ctx, events); err != nil || running {
		return nil, errors.Join(fmt.Errorf("a server is running on %s: stop it first", dir), err)
	}
	if elsewhere := postgres.LinkedFrom(database); elsewhere != "" {
		home, err := postgres.HomeAt(elsewhere)
		switch {
		case err == nil && home.InUse:
			return nil, fmt.Errorf("a server is running on %s: stop it first", dir)
		case err == nil && home.For == database: // else another directory uses it, or it is gone
			plan = append(plan, removedDir{Dir: elsewhere, Holds: clusterHolds})
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	last := removedDir{Dir: dir}
	for _, part := range []struct{ name, what string }{
		{"eventstore", "THE EVENTS: the whole history, of which everything else is made"},
		{config.MasterKeyFile, "THE MASTER KEY: without another copy, no stored secret can be read again, not " +
			"in a backup either"},
		{"keys", "THE KEY STORE: the data keys, or a copy of them"},
		{"epoch[.-]*", "this server's copy of the epoch key"},
		{config.AdminTokenFile, "the admin token"},
		{config.SealKeyFile, "the key that signs tree heads of the log"},
	} {
		if found, err := filepath.Glob(filepath.Join(dir, part.name)); err == nil && len(found) > 0 {
			last.Holds = append(last.Holds, part.what)
		}
	}
	if _, err := os.Stat(filepath.Join(database, "pgdata")); err == nil {
		last.Holds = append(last.Holds, clusterHolds...)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	last.Holds = append(last.Holds, "in all: "+strings.Join(names, ", "))
	return append(plan, last), nil
}
