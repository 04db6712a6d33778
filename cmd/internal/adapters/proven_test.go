package adapters_test

import (
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
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/auditors"
	"carillon/projections/operators"
	"carillon/projections/organizations"
	"carillon/query"
)

// credentialed is an installation with a key of an organization, a token of an operator and one of an auditor, each
// with the id "good", and the process that looks them up.
type credentialed struct {
	*adapters.Proven

	t     *testing.T
	now   time.Time
	org   uuid.UUID
	store *watchedStore
}

func newCredentialed(t *testing.T) *credentialed {
	t.Helper()
	t.Parallel()
	p := startParts(t, organizations.ReadModel, operators.ReadModel, auditors.ReadModel)
	c := &credentialed{
		t:     t,
		now:   time.Now().UTC().Truncate(time.Microsecond),
		org:   uuid.New(),
		store: &watchedStore{Store: p.store, asked: make(chan struct{})},
	}
	c.Proven = adapters.NewProven(&query.Queries{Pool: p.pool}, c.store, p.runner.Progress.Await,
		func() time.Time { return c.now }, slog.New(slog.DiscardHandler))
	ctx, hash := t.Context(), []byte("hash")
	c.change(organization.Register{Name: "Town", At: c.now})
	c.issue("good", "ended")
	c.change(organization.RevokeKey{KeyID: "ended", At: c.now})
	token, err := operator.Aggregate.Execute(ctx, p.store, operator.StreamID("ann"), operator.Issue{
		Name:    "ann",
		TokenID: "good",
		Hash:    hash,
		At:      c.now,
	}, operator.Options{})
	must.True(t, err == nil && c.Await(ctx, token.Position, operators.ReadModel.Name), "%v", err)
	audits, err := auditor.Aggregate.Execute(ctx, p.store, auditor.StreamID("good"), auditor.Issue{
		Name:         "eve",
		TokenID:      "good",
		Organization: c.org,
		Hash:         hash,
		At:           c.now,
	}, auditor.Options{})
	must.True(t, err == nil && c.Await(ctx, audits.Position, auditors.ReadModel.Name), "%v", err)
	return c
}

// change executes a command of the organization, and waits until its keys show it.
func (c *credentialed) change(command organization.Command) {
	c.t.Helper()
	out, err := organization.Aggregate.Execute(c.t.Context(), c.store.Store, c.org, command, organization.Options{})
	must.True(c.t, err == nil && c.Await(c.t.Context(), out.Position, organizations.ReadModel.Name), "%v", err)
}

func (c *credentialed) issue(keys ...string) {
	c.t.Helper()
	for _, id := range keys {
		c.change(organization.IssueKey{
			KeyID:  id,
			Hash:   []byte("hash"),
			Scopes: []organization.Scope{"read"},
			At:     c.now,
		})
	}
}

// forge writes to Postgres by hand.
func (c *credentialed) forge(sql string) {
	c.t.Helper()
	must.Get(c.Queries.Pool.Exec(c.t.Context(), sql))(c.t)
}

// found lists the credentials that can be used, as kind and id.
func (c *credentialed) found() (all []string) {
	c.t.Helper()
	keys := must.Get(c.FindKeys(c.t.Context(), []string{"good", "ended", "made"}, c.now))(c.t)
	for _, k := range keys {
		all = append(all, "key "+k.ID)
	}
	for _, id := range []string{"good", "made"} {
		if _, err := c.Token(c.t.Context(), query.Operators, id, c.now); err == nil {
			all = append(all, "operator "+id)
		}
		if _, err := c.Token(c.t.Context(), query.Auditors, id, c.now); err == nil {
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
			c := newCredentialed(t)
			got := c.found()
			must.True(t, slices.Equal(got, good), "before: %v", got)
			c.forge(forgery.sql)
			assert.Slices(t, c.found(), forgery.left, "found")
			forged := c.Forged()
			assert.Equal(t, forged > 0, forgery.readModel != "", "forged credentials counted: %d", forged)
			c.now = c.now.Add(time.Hour)
			differ, err := c.Compare(t.Context())
			if err != nil || strings.Join(differ, ",") != forgery.readModel || forged > 0 && c.Forged() == forged {
				t.Errorf("the comparison finds %v, %v", differ, err)
			}
		})
	}
}

// watchedStore is a store that may be unreadable or away, and says what it is asked.
type watchedStore struct {
	eventstore.Store

	err, head error // of Read and Head; nil means that it can
	reading   func()
	reads     atomic.Int64
	asked     chan struct{} // closed once Head was answered
	once      sync.Once
}

// Read implements eventstore.Store.
func (s *watchedStore) Read(
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
func (s *watchedStore) Head(ctx context.Context) (eventstore.Position, error) {
	if s.head != nil {
		return eventstore.Start, s.head
	}
	defer s.once.Do(func() { close(s.asked) })
	return s.Store.Head(ctx)
}

// A caller that goes away, and a stream that can't be read, switch no comparison off.
func TestCredentialsNotCompared(t *testing.T) {
	c := newCredentialed(t)
	c.forge(`INSERT INTO operators.tokens (id, name, hash, created_at)
		SELECT 'made', 'mallory', hash, created_at FROM operators.tokens`)
	ctx, hangUp := context.WithCancel(t.Context())
	c.store.reading = hangUp
	must.Get(c.Token(ctx, query.Operators, "good", c.now))(t)
	assert.Is(t, assert.Err(c.Token(t.Context(), query.Operators, "made", c.now)), query.ErrNotFound,
		"a forged token after a caller went away")
	for _, c.store.err = range []error{errors.New("damaged"), context.Canceled, eventstore.ErrUnavailable} {
		keys, err := c.FindKeys(t.Context(), []string{"good"}, c.now)
		assert.True(t, len(keys) == 0 && errors.Is(err, eventstore.ErrUnavailable),
			"key whose stream can't be read, %v: %v, %v", c.store.err, keys, err)
		assert.Is(t, assert.Err(c.Compare(t.Context())), c.store.err, "comparison without an answer")
	}
}

// Keys of an organization are compared by one reading of its stream, and the hourly comparison is a proof for an hour.
func TestCredentialsReadOnce(t *testing.T) {
	c := newCredentialed(t)
	ids := []string{"good", "more0", "more1", "more2"}
	c.issue(ids[1:]...)
	for _, step := range []struct {
		after time.Duration
		hour  bool
		reads int64
	}{{0, false, 1}, {45 * time.Minute, true, 3}, {30 * time.Minute, false, 0}} {
		c.now = c.now.Add(step.after)
		c.store.reads.Store(0)
		if step.hour {
			differ, err := c.Compare(t.Context())
			must.True(t, err == nil && len(differ) == 0, "%v %v", differ, err)
		}
		if keys, err := c.FindKeys(t.Context(), ids, c.now); err != nil || len(keys) != len(ids) {
			t.Fatal(keys, err)
		}
		assert.Equal(t, c.store.reads.Load(), step.reads, "after %s more … readings", step.after)
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
			c := newCredentialed(t)
			go c.Watch(t.Context())
			<-c.store.asked
			must.Equal(t, len(c.found()), 3, "found")
			c.change(of.end)
			c.forge(of.sql)
			must.Eventually(t, "the key works no longer", func() bool { return len(c.found()) == 2 })
		})
	}
}

// A row that is behind the log is refused without an alarm, and while the store is away rows are taken as they are.
func TestCredentialsBehindTheLog(t *testing.T) {
	c := newCredentialed(t)
	c.store.err, c.store.head = eventstore.ErrUnavailable, eventstore.ErrUnavailable
	assert.Equal(t, len(c.found()), 3, "while the store is away")
	c.store.err, c.store.head, c.now = nil, nil, c.now.Add(time.Minute)
	c.change(organization.Suspend{At: c.now})
	c.forge("UPDATE organizations.organizations SET status = 'registered'")
	c.Await = func(context.Context, eventstore.Position, ...string) bool { return false }
	if got := c.found(); len(got) != 2 || c.Forged() > 0 {
		t.Errorf("suspended in the log alone: %v, forged %d", got, c.Forged())
	}
}
