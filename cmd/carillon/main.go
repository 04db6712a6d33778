// Command carillon collects events from outside sources into feeds, serves them over an HTTPS JSON API, and delivers
// what it publishes as signed webhooks. "carillon serve" runs it; the other subcommands talk to a running server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"carillon/aggregates/source"
	"carillon/cmd/internal/config"
)

// commandLine is the table of contents: each subcommand has a file.
type commandLine struct {
	config.Logging `group:"Logging"`

	UTC bool `name:"utc" help:"Show times in UTC, not in the zone of this machine."`

	Serve       serveCommand       `cmd:"" help:"Run the server."`
	Init        initCommand        `cmd:"" help:"Make the secrets of a new installation in containers."`
	Status      statusCommand      `cmd:"" help:"Show the health of a server and the progress of its projections."`
	Doctor      doctorCommand      `cmd:"" help:"Examine an installation: machine, stores, network, certificates, keys, backups."`
	Config      configCommand      `cmd:"" help:"Settings."`
	Org         orgCommand         `cmd:"" help:"Organizations, the owners of feeds and destinations."`
	Key         keyCommand         `cmd:"" help:"API keys of organizations."`
	Backup      backupCommand      `cmd:"" help:"Back up event store and data keys, with the server running or stopped."`
	Restore     restoreCommand     `cmd:"" help:"Restore event store and key store from a backup, and verify them."`
	Data        dataCommand        `cmd:"" help:"Data directories on this machine."`
	Keys        keysCommand        `cmd:"" help:"Master key and epoch key."`
	Console     consoleCommand     `cmd:"" help:"Create a login link for an organization's console, valid once within 15 minutes."`
	Source      sourceCommand      `cmd:"" help:"Sources of collected events."`
	Happening   happeningCommand   `cmd:"" help:"Happenings: events and the sources that show them."`
	Feed        feedCommand        `cmd:"" help:"Feeds of other systems, and sharing."`
	Publish     publishCommand     `cmd:"" help:"Publish events from a file."`
	Projections projectionsCommand `cmd:"" help:"Read models and process managers."`
	Audit       auditCommand       `cmd:"" help:"Audit trail: who changed what, when and why, also of what was deleted; tree heads of the log, and proofs."`
	Auditor     auditorCommand     `cmd:"" help:"Tokens that read the audit trail and nothing else."`
	Analytics   analyticsCommand   `cmd:"" help:"Logins of analysts, who read views in SQL."`
	Operator    operatorCommand    `cmd:"" help:"Operators, each with a personal token under which actions are recorded."`
	Eventstore  eventstoreCommand  `cmd:"" help:"The event store: run it alone, back up, restore, verify, scavenge, copy."`
	Demo        demoCommand        `cmd:"" help:"Demonstrate collecting and delivering, on a running development server or a temporary one."`
	Dev         devCommand         `cmd:"" help:"Tools for a development server."`
	Listen      listenCommand      `cmd:"" help:"Receive webhooks of a development server, and print or forward them."`
	Trigger     triggerCommand     `cmd:"" help:"Publish an example of an event on a development server."`
	Version     versionCommand     `cmd:"" help:"Print the version."`

	Destinations destinationsCommand `cmd:"" aliases:"destination" help:"Destinations of an organization, with its key."`
	Deliveries   deliveriesCommand   `cmd:"" aliases:"delivery" help:"Deliveries to all destinations: list, show, retry, replay."`
	Events       eventsCommand       `cmd:"" aliases:"event" help:"Published events: list, show who got one, tail."`

	VersionFlag kong.VersionFlag `name:"version" hidden:"" help:"Print the version."`
}

// terminal has the input and output of a command.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	raw      io.Writer // out for what is signed and compared byte by byte
}

// zone returns the time zone of the output.
func (t terminal) zone() *time.Location { return zoneOf(t.out) }

func main() {
	ending := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ending = append(ending, syscall.SIGHUP) // the terminal was closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), ending...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	code := run(ctx, os.Args[1:], terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// exitUnpinned is the exit code of a verification without a public key to go by.
const exitUnpinned = 2

// exitIncomplete is the exit code of an export that lacks something, if it must be complete.
const exitIncomplete = 3

// exitError is a failure with an exit code other than 1.
type exitError struct {
	error

	code int
}

// words are what flags and helps name.
func words() kong.Vars {
	return kong.Vars{
		"version":       versionText(),
		"sourceTypes":   strings.Join(source.Types(), ","),
		"oneSourceType": either(source.Types()),
		"onePage":       either(source.Pages()),
		"oneAccount":    either(source.Accounts()),
	}
}

func either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// run is main without the process around it. It returns the exit code: 0, 1 for a failure, 2 for a wrong command
// line, or that of an exitError.
func run(ctx context.Context, args []string, t terminal) int {
	exited := -1
	var line commandLine
	parser, err := kong.New(&line, kong.Name("carillon"), kong.Description(description),
		kong.Writers(t.out, t.err),
		kong.Exit(func(code int) { exited = code }), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Resolvers(config.FromFiles()), kong.BindTo(ctx, (*context.Context)(nil)),
		words())
	if err == nil {
		err = config.DropEmpty(os.Environ(), os.Unsetenv)
	}
	if err != nil {
		return fail(t, err, 1)
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help": // carillon help org limits
		args = append(slices.Clone(args[1:]), "--help")
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited >= 0: // help was asked for
		return exited
	case err != nil:
		return fail(t, mistake(err), 2)
	}
	if emptyArgument(args, parsed.Flags()) {
		return fail(t, fmt.Errorf("an argument is empty: is a variable not set?\nSee %q", help(parsed.Selected())), 2)
	}
	zone := time.Local
	if line.UTC {
		zone = time.UTC
	}
	t.raw, t.out = t.out, zoned{&harmless{to: t.out}, zone}
	err = parsed.Run(t)
	if coded, is := errors.AsType[*exitError](err); is {
		return fail(t, err, coded.code)
	}
	canceled := errors.Is(err, context.Canceled)
	switch {
	case err == nil, canceled && slices.Contains(endless, parsed.Command()):
		return 0
	case canceled && ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	return fail(t, err, 1)
}

// endless are the commands that nothing but Ctrl-C ends. An interruption of the others is a failure: a script must not
// take half a backup for a whole one.
var endless = []string{"serve", "listen", "events tail", "eventstore run"}

// commands names the commands for routes that refusals of the server name.
var commands = strings.NewReplacer(
	"POST /events/deliveries/{id}/retry", `"carillon deliveries retry ID"`,
	"POST /events/deliveries/{id}/replay", `"carillon deliveries replay ID"`,
)

func fail(t terminal, err error, code int) int {
	// Texts of servers and files may hold escapes that a terminal obeys.
	lines := strings.Split(commands.Replace(err.Error()), "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	_, _ = fmt.Fprintf(t.err, "carillon: %s\n", strings.Join(lines, "\n"))
	return code
}

const description = `Carillon collects events from outside sources into feeds, serves them over an HTTPS JSON API,
and delivers what is published as signed webhooks.

  carillon serve --dev     a server on this machine, with everything it needs, and a key to try it
  carillon demo            the main job, step by step

Every flag has a variable; an empty variable means the default.`
