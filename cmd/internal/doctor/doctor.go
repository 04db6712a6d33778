// Package doctor examines an installation from outside: what a server with given settings needs of its machine, its
// stores and its network. It changes nothing but a file of its own, which it removes, and works beside a server.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/cmd/internal/config"
)

// State says what became of a check.
type State string

// The states. Only Failed keeps an installation from working.
const (
	Good    State = "ok"
	Warning State = "warning"
	Failed  State = "failed"
	Skipped State = "skipped" // it does not apply, or needs an option
)

// Finding is the result of a check.
type Finding struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // what to do. Empty: nothing
}

// Patient has what is examined.
type Patient struct {
	Config config.Config // validated

	Unknown []string // CARILLON_* variables that no setting has
	Backups string   // the newest backup's directory. Empty: unknown
	Public  string   // the address by which clients reach the API. Empty: unknown
	Reach   []string // addresses of receivers or sites that must be reachable
	Now     func() time.Time
}

// patience bounds each check.
const patience = 10 * time.Second

// check examines one thing. An error is a failed check, unless it is a *note.
type check struct {
	name    string
	examine func(context.Context, *Patient) (found string, err error)
}

// checks are all of them, in the order in which what fails explains what fails later.
var checks = []check{
	{"settings", settings},
	{"data directory", dataDirectory},
	{"disk space", diskSpace},
	{"sync time", syncTime},
	{"open files", openFiles},
	{"memory", memory},
	{"name resolution", resolution},
	{"postgres", database},
	{"postgres settings", databaseSettings},
	{"clock", clock},
	{"event store", eventStore},
	{"master key", masterKey},
	{"data keys", dataKeys},
	{"certificate", certificate},
	{"API address", apiAddress},
	{"admin address", adminAddress},
	{"public address", publicAddress},
	{"egress", reachable},
	{"backup", backups},
}

// note is a finding that is no failure.
type note struct {
	state State
	found string
	do    string
}

func (n *note) Error() string { return n.found }

func warn(do, found string, args ...any) error {
	return &note{Warning, fmt.Sprintf(found, args...), do}
}

func skip(found string) error { return &note{state: Skipped, found: found} }

func fail(do, found string, args ...any) error { return &note{Failed, fmt.Sprintf(found, args...), do} }

// Examine makes all checks, and calls each with every finding as it is made.
func Examine(ctx context.Context, p *Patient, each func(Finding)) {
	for _, c := range checks {
		each(p.examine(ctx, c))
	}
}

func (p *Patient) examine(ctx context.Context, c check) Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := c.examine(ctx, p)
	if n, is := errors.AsType[*note](err); is {
		return Finding{c.name, n.state, n.found, n.do}
	}
	if err != nil {
		return Finding{c.name, Failed, err.Error(), ""} // which says what to do
	}
	return Finding{Check: c.name, State: Good, Found: found}
}

func settings(_ context.Context, p *Patient) (string, error) {
	if len(p.Unknown) > 0 {
		return "", warn(`correct or unset them: "carillon serve --help" lists all`, "unknown variables: %v", p.Unknown)
	}
	if why := p.Config.Unreachable(); why != "" {
		return "", warn("", "%s", why)
	}
	return fmt.Sprintf("valid; roles %v", p.Config.Roles), nil
}
