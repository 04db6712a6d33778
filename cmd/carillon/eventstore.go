package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/storenode"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/eventstore/node"
)

type eventstoreCommand struct {
	Run      eventstoreRunCommand      `cmd:"" default:"withargs" help:"Run the event store alone, for EventStoreDB clients in any language."`
	Backup   eventstoreBackupCommand   `cmd:"" help:"Back up the node's data consistently, running or stopped."`
	Restore  eventstoreRestoreCommand  `cmd:"" help:"Restore a node's directory from a backup."`
	Verify   eventstoreVerifyCommand   `cmd:"" help:"Verify all data: checksums, log and indexes."`
	Repair   eventstoreRepairCommand   `cmd:"" help:"List events lost to damage at the end of the log, and optionally continue without them."`
	Scavenge eventstoreScavengeCommand `cmd:"" help:"Remove deleted and truncated events permanently."`
	Copy     eventstoreCopyCommand     `cmd:"" help:"Copy all streams into another event store: from the embedded node into a cluster, or back."`
}

// nodeDirectory has the directory of a node's data.
type nodeDirectory struct {
	Data    string `env:"CARILLON_EVENTSTORE_DATA" placeholder:"DIR" help:"The node's directory. Empty: \"eventstore\" in the data directory."`
	DataDir string `env:"CARILLON_DATA_DIR" default:"./data" placeholder:"DIR" help:"The data directory of \"carillon serve\" (${default})."`
}

func (d *nodeDirectory) path() string {
	if d.Data != "" {
		return d.Data
	}
	return filepath.Join(d.DataDir, "eventstore")
}

type eventstoreRunCommand struct {
	storenode.Settings
	nodeDirectory
}

// Help implements kong.HelpProvider.
func (eventstoreRunCommand) Help() string {
	return `Serves the EventStoreDB protocol on one TCP port, until Ctrl-C. Without TLS it listens on this machine only;
elsewhere it requires TLS, a user and a password.

  carillon eventstore --addr 127.0.0.1:2113 --data ./events
  CARILLON_EVENTSTORE_PASSWORD=… carillon eventstore --addr :2113 --data ./events \
    --tls-cert cert.pem --tls-key key.pem --user admin`
}

// Run runs the node until the context ends.
func (c *eventstoreRunCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	return storenode.Run(ctx, c.path(), c.Settings, t.out, cli.Logger(os.Stderr))
}

// onNode has the flags that the tasks on one node share.
type onNode struct {
	nodeDirectory

	printing
}

func (c *onNode) show(t terminal, answer any, text string) error {
	return c.print(t.out, answer, func(w io.Writer) { row(w, text) })
}

// ProvideNode opens the node for every subcommand whose Run takes one.
func (c *onNode) ProvideNode(ctx context.Context, cli *commandLine) (maintenance.Node, error) {
	return maintenance.Open(ctx, c.path(), cli.Logger(os.Stderr))
}

type eventstoreBackupCommand struct {
	onNode

	To string `arg:"" type:"path" placeholder:"DIR" help:"The directory to create; it must not exist."`
}

// Run makes the backup, in the process that runs the node if there is one.
func (c *eventstoreBackupCommand) Run(ctx context.Context, t terminal, n maintenance.Node) error {
	to, err := filepath.Abs(c.To) // the running process may be in another directory
	if err != nil {
		return err
	}
	_, end := bar(t, "backing up")
	started := time.Now()
	err = n.Backup(ctx, to)
	end()
	if err != nil {
		return err
	}
	size, err := sizeOf(to)
	if err != nil {
		return err
	}
	return c.show(t, backedUp{Dir: to, Bytes: size},
		fmt.Sprintf("backed up to %s: %s in %s", to, maintenance.BytesText(size), since(started)))
}

type backedUp struct {
	Dir   string `json:"dir"`
	Bytes uint64 `json:"bytes"`
}

func sizeOf(dir string) (total uint64, err error) {
	err = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += uint64(info.Size()) //nolint:gosec // not negative
		}
		return err
	})
	return total, err
}

type eventstoreRestoreCommand struct {
	onNode

	From string `arg:"" type:"existingdir" placeholder:"DIR" help:"The backup."`
}

// Help implements kong.HelpProvider.
func (eventstoreRestoreCommand) Help() string {
	return `Copies the backup into the node's directory, which must be empty or not exist, and verifies it. The server must
not be running. After an older backup the read models are rebuilt on the next start, which sends and
visits nothing without --after-restore.

This detects damage, not manipulation: take backups from places that only you can write to, or
restore with "carillon restore", which verifies the signature of your master key.`
}

// Run restores and verifies.
func (c *eventstoreRestoreCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	if c.Data == "" && !maintenance.Holds(c.path()) { // else it is refused below
		if err := config.MarkRestored(c.DataDir, true); err != nil {
			return err
		}
	}
	copying, end := bar(t, "restoring")
	var verifying node.Progress
	report, err := maintenance.Restore(ctx, c.From, c.path(), cli.Logger(os.Stderr), copying,
		func(done, total uint64) {
			if verifying == nil {
				end()
				verifying, end = bar(t, "verifying")
			}
			verifying(done, total)
		})
	end()
	if err != nil {
		return err
	}
	if !report.OK() {
		return errors.Join(c.show(t, report, maintenance.ReportText(report)),
			errors.New("the backup is damaged; nothing was restored"))
	}
	return c.show(t, report, "restored to "+c.path()+": "+maintenance.ReportText(report))
}

type eventstoreVerifyCommand struct{ onNode }

// Run verifies. It fails where anything is wrong.
func (c *eventstoreVerifyCommand) Run(ctx context.Context, t terminal, n maintenance.Node) error {
	progress, end := bar(t, "verifying")
	report, err := n.Verify(ctx, progress)
	end()
	if err != nil {
		return err
	}
	if err := c.show(t, report, maintenance.ReportText(report)); err != nil {
		return err
	}
	if !report.OK() {
		return errors.New("the event store is damaged: restore a backup, and keep the damaged directory")
	}
	return nil
}

type eventstoreScavengeCommand struct{ onNode }

// Run scavenges.
func (c *eventstoreScavengeCommand) Run(ctx context.Context, t terminal, n maintenance.Node) error {
	progress, end := bar(t, "scavenging")
	started := time.Now()
	removed, err := n.Scavenge(ctx, progress)
	end()
	if err != nil {
		return err
	}
	return c.show(t, removed,
		fmt.Sprintf("removed %d events, %s, in %s", removed.Events, maintenance.BytesText(removed.Bytes), since(started)))
}

// bar shows progress on a terminal, and nothing elsewhere. Call end before anything else is printed.
func bar(t terminal, what string) (show node.Progress, end func()) {
	if !config.IsTerminal(t.err) {
		return func(uint64, uint64) {}, func() {}
	}
	b := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(t.err), progressbar.OptionSetDescription(what),
		progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
	return func(done, total uint64) {
		if total > 0 {
			b.ChangeMax64(int64(total))            //nolint:gosec // far below
			_ = b.Set64(int64(min(done, total-1))) //nolint:gosec // far below; at its maximum the bar would end itself
		}
	}, func() { _ = b.Finish() }
}

func since(started time.Time) string { return time.Since(started).Round(time.Millisecond).String() }
