package app

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/aggregates/operator"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/projections"
	"carillon/projections/auditors"
	"carillon/projections/operators"
	"carillon/projections/organizations"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
	"carillon/query"
)

// credentialed is an installation with a key of an organization, a token of an operator and one of an auditor, each
// with the id "good", and the process that looks them up.
type credentialed struct {
	*adapters.Proven

	t      *testing.T
	v      *verifications
	now    time.Time
	org    uuid.UUID
	logged bytes.Buffer
}

func newCredentialed(t *testing.T) *credentialed {
	t.Helper()
	models := []projections.ReadModel{organizations.ReadModel, operators.ReadModel, auditors.ReadModel}
	pool, store := projecttest.Pool(t, models...), nodetest.Start(t)
	c := &credentialed{t: t, now: time.Now().UTC().Truncate(time.Microsecond), org: uuid.New()}
	runner := &projections.Runner{
		Pool:     pool,
		Locks:    pgtest.Locks(t, pool),
		Store:    store,
		Log:      slog.New(slog.DiscardHandler),
		Progress: projections.NewProgress(pool),
	}
	now, log := func() time.Time { return c.now }, slog.New(slog.NewTextHandler(&c.logged, nil))
	c.Proven = adapters.NewProven(&query.Queries{Pool: pool}, store, runner.Progress.Await, now, log)
	c.v = &verifications{
		runner: runner,
		statuses: func(ctx context.Context) ([]projections.Status, error) {
			return projections.Statuses(context.WithoutCancel(ctx), pool)
		},
		now:    now,
		log:    log,
		proven: c.Proven,
	}
	ctx, hash := t.Context(), []byte("hash")
	registered, err := organization.Aggregate.Execute(ctx, store, c.org,
		organization.Register{Name: "Town", At: c.now}, organization.Options{})
	issue := func(command organization.Command) {
		if err == nil {
			registered, err = organization.Aggregate.Execute(ctx, store, c.org, command, organization.Options{})
		}
	}
	for _, id := range []string{"good", "ended"} {
		issue(organization.IssueKey{
			KeyID:  id,
			Hash:   hash,
			Scopes: []organization.Scope{"read"},
			At:     c.now,
		})
	}
	issue(organization.RevokeKey{KeyID: "ended", At: c.now})
	if err != nil {
		t.Fatal(err)
	}
	_, err = operator.Aggregate.Execute(ctx, store, operator.StreamID("ann"), operator.Issue{
		Name:    "ann",
		TokenID: "good",
		Hash:    hash,
		At:      c.now,
	}, operator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last, err := auditor.Aggregate.Execute(ctx, store, auditor.StreamID("good"), auditor.Issue{
		Name:         "eve",
		TokenID:      "good",
		Organization: c.org,
		Hash:         hash,
		At:           c.now,
	}, auditor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		go func() { _ = runner.Project(ctx, m) }()
		to := registered.Position
		if to.Before(last.Position) {
			to = last.Position
		}
		if !runner.Progress.Await(ctx, to, m.Name) {
			t.Fatal(ctx.Err())
		}
	}
	return c
}

// found lists the credentials that can be used, as kind and id.
func (c *credentialed) found() (all []string) {
	c.t.Helper()
	keys, err := c.FindKeys(c.t.Context(), []string{"good", "ended", "made"}, c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, k := range keys {
		all = append(all, "key "+k.ID)
	}
	for _, id := range []string{"good", "made"} {
		if _, err := c.OperatorToken(c.t.Context(), id, c.now); err == nil {
			all = append(all, "operator "+id)
		}
		if _, err := c.AuditorToken(c.t.Context(), id, c.now); err == nil {
			all = append(all, "auditor "+id)
		}
	}
	slices.Sort(all)
	return all
}

// Rows that were changed or made by hand grant nothing at the first use, and are found within the hour.
func TestForgedCredentials(t *testing.T) {
	t.Parallel()
	good, tokens := []string{"auditor good", "key good", "operator good"}, []string{"auditor good", "operator good"}
	for name, forgery := range map[string]struct {
		sql, readModel string
		left           []string
	}{
		"none": {"SELECT 1", "", good},
		"key": {`INSERT INTO organizations.keys (id, organization, name, hash, scopes, created_at, successor_of)
			SELECT 'made', organization, name, hash, scopes, created_at, '' FROM organizations.keys WHERE id = 'good'`,
			"organizations", good},
		"scopes":  {"UPDATE organizations.keys SET scopes = '{read,write,secrets}'", "organizations", tokens},
		"secret":  {"UPDATE organizations.keys SET hash = 'mine'", "organizations", tokens},
		"revoked": {"UPDATE organizations.keys SET revoked_at = NULL", "organizations", good},
		"operator": {`INSERT INTO operators.tokens (id, name, hash, created_at)
			SELECT 'made', name, hash, created_at FROM operators.tokens`, "operators", good},
		"operator named": {`INSERT INTO operators.tokens (id, name, hash, created_at)
			SELECT 'made', 'mallory', hash, created_at FROM operators.tokens`, "operators", good},
		"auditor": {`INSERT INTO auditors.tokens (id, name, hash, created_at)
			SELECT 'made', name, hash, created_at FROM auditors.tokens`, "auditors", good},
		"all trails": {"UPDATE auditors.tokens SET organization = NULL", "auditors", good[1:]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCredentialed(t)
			if got := c.found(); !slices.Equal(got, good) {
				t.Fatalf("before: %v", got)
			}
			if _, err := c.Queries.Pool.Exec(t.Context(), forgery.sql); err != nil {
				t.Fatal(err)
			}
			if got := c.found(); !slices.Equal(got, forgery.left) {
				t.Errorf("found %v, want %v", got, forgery.left)
			}
			forged := c.Forged()
			if (forged > 0) != (forgery.readModel != "") {
				t.Errorf("forged credentials counted: %d", forged)
			}
			c.now = c.now.Add(proofEvery)
			hour(t, c)
			warnings := strings.Join(c.v.warnings(), "\n")
			if forgery.readModel == "" && warnings+c.logged.String() != "" || !strings.Contains(warnings, forgery.readModel) {
				t.Errorf("warnings: %s\n%s", warnings, &c.logged)
			}
			if forged > 0 && c.Forged() == forged {
				t.Error("the hourly comparison found nothing")
			}
		})
	}
}

// awayStore is a store that can't be read.
type awayStore struct {
	eventstore.Store

	err error // nil means that it can
}

// Read implements eventstore.Store.
func (s *awayStore) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	if s.err != nil {
		return func(yield func(eventstore.Recorded, error) bool) { yield(eventstore.Recorded{}, s.err) }
	}
	return s.Store.Read(ctx, stream, from)
}

// hour lets the comparison of an hour pass.
func hour(t *testing.T, c *credentialed) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ticks, ended := make(chan time.Time), make(chan struct{})
	go func() { c.v.credentials(ctx, ticks); close(ended) }()
	ticks <- c.now // the comparison of the start is over
	ticks <- c.now // and that of the tick
	cancel()
	<-ended
}

// A row that is behind the log is refused without an alarm, and while the store is away rows are taken as they are.
func TestCredentialsBehindTheLog(t *testing.T) {
	t.Parallel()
	c := newCredentialed(t)
	away := &awayStore{Store: c.Store}
	c.Store, c.Await = away, func(context.Context, eventstore.Position, ...string) bool { return false }
	away.err = eventstore.ErrUnavailable
	if got := c.found(); len(got) != 3 {
		t.Errorf("while the store is away: %v", got)
	}
	away.err, c.now = nil, c.now.Add(time.Minute)
	suspended, err := organization.Aggregate.Execute(t.Context(), away.Store, c.org, organization.Suspend{At: c.now},
		organization.Options{})
	if err != nil || !c.v.runner.Progress.Await(t.Context(), suspended.Position, organizations.ReadModel.Name) {
		t.Fatal(err)
	}
	const forge = "UPDATE organizations.organizations SET status = 'registered'"
	if _, err := c.Queries.Pool.Exec(t.Context(), forge); err != nil {
		t.Fatal(err)
	}
	if got := c.found(); len(got) != 2 || c.Forged() > 0 {
		t.Errorf("suspended in the log alone: %v, forged %d", got, c.Forged())
	}
}
