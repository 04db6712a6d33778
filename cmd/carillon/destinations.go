package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
)

// asking has the flags of every subcommand that shows an answer of the API.
type asking struct {
	config.API `group:"Server"`

	Org        anID          `group:"Server" placeholder:"ID" help:"Ask for this organization, with the admin token."`
	AdminAddr  string        `group:"Server" env:"CARILLON_ADMIN_ADDR" default:"127.0.0.1:8081" help:"With --org."`
	AdminToken config.Secret `group:"Server" env:"CARILLON_ADMIN_TOKEN" help:"With --org."`

	printing

	reason string // of a change. Optional
	body   any    // of a change that may take long. Optional
}

// open returns a client, and what its paths begin with.
func (a *asking) open() (client *apiclient.Client, prefix string, err error) {
	organization := a.Org.UUID()
	if organization == uuid.Nil {
		client, err = apiclient.Open(&a.API)
		return client, "", err
	}
	settings := config.Client{AdminAddr: a.AdminAddr, DataDir: a.DataDir, AdminToken: a.AdminToken}
	base, err := settings.BaseURL()
	if err != nil {
		return nil, "", err
	}
	token, err := settings.Token()
	if err != nil {
		return nil, "", err
	}
	return apiclient.NewAdmin(base, token), "/admin/organizations/" + organization.String(), nil
}

// show prints the answer to a request: as it came, indented, or as the text that is made of it.
func show[T any](ctx context.Context, a *asking, out io.Writer, method, path string, text func(io.Writer, T)) error {
	client, prefix, err := a.open()
	if err != nil {
		return err
	}
	var answer jsontext.Value
	call := client.WithReason(a.reason).Call
	if a.body != nil {
		call = client.WithReason(a.reason).CallPatiently
	}
	if err := call(ctx, method, prefix+path, a.body, &answer); err != nil {
		return err
	}
	if a.JSON {
		if err := answer.Indent(jsontext.WithIndent("  ")); err != nil {
			return err
		}
		_, err := out.Write(append(answer, '\n'))
		return err
	}
	var known T
	if err := json.Unmarshal(answer, &known); err != nil {
		return err
	}
	return a.print(out, known, func(w io.Writer) { text(w, known) })
}

// more prints the flag that continues a list, if there is more.
func more[T any](w io.Writer, l httpapi.Stretch[T]) {
	if l.Pagination.Until != nil {
		row(w, "There are more: --until '"+*l.Pagination.Until+"'")
	}
}

// queryOf makes a query string of the flags that were given.
func queryOf(limit int, flags map[string]string) string {
	values := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, value := range flags {
		if value != "" {
			values.Set(name, value)
		}
	}
	return "?" + values.Encode()
}

type destinationsCommand struct {
	List destinationsListCommand `cmd:"" default:"withargs" help:"List destinations."`
	Show destinationsShowCommand `cmd:"" help:"Show a destination and its health."`

	Enable  destinationsEnableCommand  `cmd:"" help:"Enable a destination that was disabled."`
	Recover destinationsRecoverCommand `cmd:"" help:"Send everything that has not arrived at a destination."`
}

type destinationsListCommand struct {
	asking
	Limit  int `default:"50" help:"Number of destinations, at most 100 (${default})."`
	Offset int `default:"0" help:"Number of destinations to leave out."`
}

// Run lists destinations.
func (c *destinationsListCommand) Run(ctx context.Context, t terminal) error {
	path := "/events/destinations" + queryOf(c.Limit, map[string]string{"offset": strconv.Itoa(c.Offset)})
	return show(ctx, &c.asking, t.out, http.MethodGet, path, func(w io.Writer, l wire.Page[httpapi.Destination]) {
		row(w, "ID", "EXTERNAL ID", "NAME", "STATUS", "FAILURES", "LAST SUCCESS")
		for _, d := range l.Items {
			row(w, d.ID, orDash(d.ExternalID), d.Name, d.Status, d.ConsecutiveFailures, d.LastSuccessAt)
		}
		if l.Pagination.HasMore {
			row(w, "There are more: --offset "+strconv.Itoa(c.Offset+len(l.Items)))
		}
	})
}

type destinationsShowCommand struct {
	asking
	Ref string `arg:"" help:"The destination's id or externalId."`
}

// Run shows a destination.
func (c *destinationsShowCommand) Run(ctx context.Context, t terminal) error {
	path := "/events/destinations/" + url.PathEscape(c.Ref)
	return show(ctx, &c.asking, t.out, http.MethodGet, path, func(w io.Writer, d httpapi.Destination) {
		row(w, "id", d.ID)
		row(w, "externalId", orDash(d.ExternalID))
		row(w, "status", d.Status, orDash(d.StatusReason))
		settings := destination.Settings{Name: d.Name, URL: d.Config.URL, Plain: destination.Plain(d.Answered)}
		for label, value := range settings.Texts() {
			row(w, label, value)
		}
		row(w, "consecutive failures", d.ConsecutiveFailures)
		row(w, "last success", d.LastSuccessAt)
		row(w, "last failure", d.LastFailureAt, orDash(d.LastErrorMessage))
	})
}

type destinationsEnableCommand struct {
	asking
	because
	Ref string `arg:"" help:"The destination's id or externalId."`
}

// Validate implements kong.Validatable.
func (c *destinationsEnableCommand) Validate() error {
	if c.Org.UUID() != uuid.Nil {
		return errors.New("--org can't enable a destination: name a key of its organization (--key)")
	}
	return c.because.Validate()
}

// Run enables a destination.
func (c *destinationsEnableCommand) Run(ctx context.Context, t terminal) error {
	c.reason, c.body = c.Reason, map[string]string{"status": "enabled"}
	path := "/events/destinations/" + url.PathEscape(c.Ref)
	return show(ctx, &c.asking, t.out, http.MethodPatch, path, func(w io.Writer, d httpapi.Destination) {
		row(w, "status", d.Status, "what has not arrived: carillon destinations recover "+d.ID.String())
	})
}

type destinationsRecoverCommand struct {
	asking
	because
	Ref    string   `arg:"" help:"The destination's id or externalId."`
	Since  timeFlag `placeholder:"TIME" help:"Replay what failed since: 1h, 7d or 2026-11-21T12:00:00Z. Default: 7d."`
	Until  timeFlag `placeholder:"TIME" help:"Only deliveries that were made up to this time."`
	Types  []string `placeholder:"TYPE" help:"Only events of these types: news.item.added, or news.*."`
	DryRun bool     `help:"Count, and send nothing."`
}

// Run makes what waits due now, and replays what failed.
func (c *destinationsRecoverCommand) Run(ctx context.Context, t terminal) error {
	c.reason, c.body = c.Reason, recoverBody{c.Since.at(t), c.Until.at(t), c.Types, c.DryRun}
	path := "/events/destinations/" + url.PathEscape(c.Ref) + "/recover"
	return show(ctx, &c.asking, t.out, http.MethodPost, path, func(w io.Writer, r httpapi.Recovery) {
		if c.DryRun {
			row(w, "nothing was sent: this is what is there")
		}
		row(w, "waiting deliveries, due now", r.Retried)
		row(w, "failed deliveries, sent again", r.Replayed)
	})
}

// recoverBody is the body of a recovery.
type recoverBody struct {
	Since  string   `json:"since,omitempty"`
	Until  string   `json:"until,omitempty"`
	Types  []string `json:"types,omitempty"`
	DryRun bool     `json:"dryRun"`
}

func orDash(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}
