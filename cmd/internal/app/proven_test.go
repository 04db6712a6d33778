package app

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// awayStore is a store that can't be read, or that is away.
type awayStore struct {
	eventstore.Store

	err, head error // of Read and Head; nil means that it can
	reading   func()
	reads     atomic.Int64
}

// Read implements eventstore.Store.
func (s *awayStore) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	s.reads.Add(1)
	if s.reading != nil {
		s.reading()
	}
	if s.err != nil {
		return func(yield func(eventstore.Recorded, error) bool) { yield(eventstore.Recorded{}, s.err) }
	}
	return s.Store.Read(ctx, stream, from)
}

// Head implements eventstore.Store.
func (s *awayStore) Head(ctx context.Context) (eventstore.Position, error) {
	if s.head != nil {
		return eventstore.Start, s.head
	}
	return s.Store.Head(ctx)
}

// A caller that goes away, and a stream that can't be read, switch no comparison off.
func TestCredentialsNotCompared(t *testing.T) {
	t.Parallel()
	c := newCredentialed(t)
	away := &awayStore{Store: c.Store}
	c.Store = away
	_, err := c.Queries.Pool.Exec(t.Context(), `INSERT INTO operators.tokens (id, name, hash, created_at)
		SELECT 'made', 'mallory', hash, created_at FROM operators.tokens`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	away.reading = hangUp
	if _, err := c.OperatorToken(ctx, "good", c.now); err != nil {
		t.Error(err)
	}
	if _, err := c.OperatorToken(t.Context(), "made", c.now); !errors.Is(err, query.ErrNotFound) {
		t.Errorf("a forged token after a caller went away: %v", err)
	}
	for _, away.err = range []error{errors.New("damaged"), context.Canceled, eventstore.ErrUnavailable} {
		keys, err := c.FindKeys(t.Context(), []string{"good"}, c.now)
		if len(keys) > 0 || !errors.Is(err, eventstore.ErrUnavailable) {
			t.Errorf("key whose stream can't be read, %v: %v, %v", away.err, keys, err)
		}
		if _, err := c.Compare(t.Context()); !errors.Is(err, away.err) {
			t.Errorf("comparison without an answer: %v, want %v", err, away.err)
		}
	}
}

// Keys of an organization are compared by one reading of its stream, and the hourly comparison is a proof for an hour.
func TestCredentialsReadOnce(t *testing.T) {
	t.Parallel()
	c := newCredentialed(t)
	away := &awayStore{Store: c.Store}
	var last eventstore.Position
	ids := []string{"good"}
	for _, id := range []string{"more0", "more1", "more2"} {
		out, err := organization.Aggregate.Execute(t.Context(), c.Store, c.org,
			organization.IssueKey{KeyID: id, Scopes: []organization.Scope{"read"}, At: c.now}, organization.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ids, last = append(ids, id), out.Position
	}
	if !c.Await(t.Context(), last, organizations.ReadModel.Name) {
		t.Fatal(t.Context().Err())
	}
	c.Store = away
	for _, step := range []struct {
		after time.Duration
		hour  bool
		reads int64
	}{{0, false, 1}, {45 * time.Minute, true, 3}, {30 * time.Minute, false, 0}} {
		c.now = c.now.Add(step.after)
		away.reads.Store(0)
		if step.hour {
			if differ, err := c.Compare(t.Context()); err != nil || len(differ) > 0 {
				t.Fatal(differ, err)
			}
		}
		if keys, err := c.FindKeys(t.Context(), ids, c.now); err != nil || len(keys) != len(ids) {
			t.Fatal(keys, err)
		}
		if got := away.reads.Load(); got != step.reads {
			t.Errorf("after %s more: %d readings, want %d", step.after, got, step.reads)
		}
	}
}

// An event that ends a credential ends its proof: its row can't be brought back by hand.
func TestCredentialsBroughtBack(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		end organization.Command
		sql string
	}{
		"key": {organization.RevokeKey{KeyID: "good"}, "UPDATE organizations.keys SET revoked_at = NULL"},
		"organization": {organization.Suspend{},
			"UPDATE organizations.organizations SET status = 'registered', suspended_at = NULL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCredentialed(t)
			heads := &headed{Store: c.Store, asked: make(chan struct{})}
			c.Store = heads
			go c.Watch(t.Context())
			<-heads.asked
			if got := c.found(); len(got) != 3 {
				t.Fatal(got)
			}
			out, err := organization.Aggregate.Execute(t.Context(), heads.Store, c.org, of.end, organization.Options{})
			if err != nil || !c.Await(t.Context(), out.Position, organizations.ReadModel.Name) {
				t.Fatal(err)
			}
			if _, err := c.Queries.Pool.Exec(t.Context(), of.sql); err != nil {
				t.Fatal(err)
			}
			patience, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for len(c.found()) != 2 { // once the event is heard
				if patience.Err() != nil {
					t.Fatal("the key works again")
				}
			}
		})
	}
}

// headed says when it was asked for its head, which was answered.
type headed struct {
	eventstore.Store

	asked chan struct{}
	once  sync.Once
}

// Head implements eventstore.Store.
func (s *headed) Head(ctx context.Context) (eventstore.Position, error) {
	defer s.once.Do(func() { close(s.asked) })
	return s.Store.Head(ctx)
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
	away.err, away.head = eventstore.ErrUnavailable, eventstore.ErrUnavailable
	if got := c.found(); len(got) != 3 {
		t.Errorf("while the store is away: %v", got)
	}
	away.err, away.head, c.now = nil, nil, c.now.Add(time.Minute)
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
