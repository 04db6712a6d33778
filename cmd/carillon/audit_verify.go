package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"

	"carillon/cmd/internal/config"
	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// trusting has the flags that name what a verification goes by.
type trusting struct {
	Head string   `type:"existingfile" placeholder:"FILE" help:"Tree heads that were kept elsewhere, as CARILLON_SEAL_TO or a log in JSON has them, an object a line."`
	Key  []string `placeholder:"BASE64" help:"Public key that signed the heads; several after a change of the key. Empty: that of the data directory."`

	DataDir string        `env:"CARILLON_DATA_DIR" default:"./data" placeholder:"DIR" help:"The data directory of \"carillon serve\" (${default})."`
	SealKey config.Secret `env:"CARILLON_SEAL_KEY" hidden:"" help:"The server's key."`
}

// read returns the public keys and the heads that were kept elsewhere.
func (c *trusting) read() (keys []ed25519.PublicKey, elsewhere []seal.Head, err error) {
	keys, err = config.PublicSealKeys(c.Key, c.SealKey, c.DataDir)
	if err == nil && c.Head != "" {
		elsewhere, err = headsFrom(c.Head)
	}
	return keys, elsewhere, err
}

type auditVerifyCommand struct {
	File string         `arg:"" optional:"" type:"existingfile" placeholder:"FILE" help:"An export with proofs (carillon audit export ID --proof). Without it, the log is verified."`
	From config.Address `env:"CARILLON_EVENTSTORE_URL" placeholder:"URL|DIR" help:"The log: a connection string, or the directory of a node. Empty: the node of the data directory."`
	printing
	trusting

	EventStorePassword config.Secret `name:"eventstore-password" env:"CARILLON_EVENTSTORE_PASSWORD" placeholder:"PASSWORD" help:"Password of the user that --from names."`
}

// Help implements kong.HelpProvider.
func (auditVerifyCommand) Help() string {
	return `The log is compared with all tree heads in it, event by event, whether a server runs or not. What
was changed, added, moved or is missing is named. By heads that were kept elsewhere (--head) a log is found
that was written again as a whole, or whose end was cut off. A file is verified without a server and offline.
It exits with 1 if anything differs, and with 2 without a public key to go by.

  carillon audit verify --head heads.ndjson
  carillon audit verify proof.ndjson --key KEY`
}

// Run verifies. It fails if there is any fault.
func (c *auditVerifyCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	trusted, elsewhere, err := c.read()
	if err != nil {
		return err
	}
	if c.File != "" {
		return c.verifyFile(t, trusted, elsewhere)
	}
	if len(trusted) == 0 {
		return unpinned(fmt.Sprintf("no key of %s is known", c.DataDir))
	}
	return c.verifyLog(ctx, t, cli, trusted, elsewhere)
}

func (c *auditVerifyCommand) verifyLog(
	ctx context.Context, t terminal, cli *commandLine, trusted []ed25519.PublicKey, elsewhere []seal.Head,
) error {
	directory := nodeDirectory{DataDir: c.DataDir}
	from := c.From.WithPassword(c.EventStorePassword)
	store, end, err := openLog(ctx, from.Reveal(), directory.path(), cli.Logger(os.Stderr))
	if err != nil {
		return err
	}
	defer end()
	head, err := store.Head(ctx)
	if err != nil {
		return err
	}
	show, endBar := bar(t, "verifying")
	v := treeheads.Verification{
		Store:     store,
		All:       store.Events,
		Trusted:   trusted,
		Elsewhere: elsewhere,
		Progress:  func(at eventstore.Position) { show(at.Commit, head.Commit) },
	}
	report, err := v.Run(ctx)
	endBar()
	if err != nil {
		return err
	}
	if err := c.print(t.out, report, func(w io.Writer) { reportSeal(w, report) }); err != nil {
		return err
	}
	switch {
	case !report.OK():
		return errors.New("the log differs from its tree heads")
	case report.Last == nil:
		return errors.New("the log has no tree head: nothing could be verified")
	}
	return nil
}

// unpinned means that nothing is proven, as no public key is known to be the server's.
func unpinned(why string) error {
	return &exitError{error: errors.New(why + ": name the public key of the heads by --key"), code: exitUnpinned}
}

func reportSeal(w io.Writer, r *treeheads.Report) {
	if r.Last != nil {
		row(w, fmt.Sprintf("%d events are as they were sealed by %s, the last of %s", r.Events,
			counted(r.Heads, "tree head"), moment(w, &r.Last.At)))
	}
	if r.Unsealed > 0 {
		row(w, fmt.Sprintf("%d newer than the last head, not sealed yet", r.Unsealed))
	}
	if r.Elsewhere > 0 {
		row(w, "it fits "+counted(r.Elsewhere, "head")+" kept elsewhere")
	}
	if r.Retired > 0 {
		row(w, fmt.Sprintf("%s retired: %d events removed, their leaves kept", counted(r.Retired, "stream"), r.Removed))
	}
	for _, f := range r.Faults {
		row(w, faultText(&f))
	}
	if more := r.Count - uint64(len(r.Faults)); more > 0 {
		row(w, fmt.Sprintf("and %d more faults", more))
	}
}

func faultText(f *treeheads.Fault) string {
	switch {
	case f.Kind == treeheads.Cut:
		return printable(fmt.Sprintf("%s: %s, before event %d of all: %s", f.Kind, f.Stream, f.Index, f.Text))
	case f.Stream == "":
		return fmt.Sprintf("%s: %s", f.Kind, f.Text)
	}
	text := fmt.Sprintf("%s: event %d of all, %s@%d", f.Kind, f.Index, f.Stream, f.Revision)
	if f.Type != "" {
		text += fmt.Sprintf(" (%s, %s)", f.Type, f.ID)
	}
	return printable(text + ": " + f.Text)
}

func (c *auditVerifyCommand) verifyFile(t terminal, trusted []ed25519.PublicKey, elsewhere []seal.Head) error {
	verified, err := readExport(c.File, trusted, elsewhere, func(*seal.ExportEvent) {})
	if err != nil {
		return err
	}
	if err := c.print(t.out, verified, func(w io.Writer) { reportExport(w, &verified) }); err != nil {
		return err
	}
	return proved(&verified)
}

// readExport verifies an export, and calls each for its events.
func readExport(
	path string, trusted []ed25519.PublicKey, elsewhere []seal.Head, each func(*seal.ExportEvent),
) (seal.Verified, error) {
	file, err := os.Open(path) //nolint:gosec // the caller's own
	if err != nil {
		return seal.Verified{}, err
	}
	defer func() { _ = file.Close() }()
	return seal.ReadExport(file, trusted, elsewhere, each)
}

func reportExport(w io.Writer, v *seal.Verified) {
	lines := v.Faults
	if len(lines) == 0 {
		lines = v.Report()
	}
	for _, line := range lines {
		row(w, line)
	}
}

// proved fails if an export does not prove what it says.
func proved(v *seal.Verified) error {
	switch {
	case len(v.Faults) > 0:
		return errors.New("the export does not prove what it says")
	case !v.KeyPinned:
		return unpinned("NOTHING IS PROVED about who signed this, as anyone may have made the file and its key")
	}
	return nil
}
