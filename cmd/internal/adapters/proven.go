package adapters

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/auditor"
	"carillon/aggregates/operator"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command/credential"
	"carillon/eventstore"
	"carillon/projections/auditors"
	"carillon/projections/operators"
	"carillon/projections/organizations"
	"carillon/query"
)

const (
	provenFor    = time.Hour       // a credential is compared with the log again after it
	proofTimeout = time.Second     // with the event store
	proofRest    = 5 * time.Second // after it did not answer
	proofLag     = 2 * time.Second // a read model has to be level with the log by then
	maxProven    = 20_000
)

// Proven finds credentials in Postgres and compares each with the log: when this process uses it first, when its row
// has changed since, and after an hour. Write access to Postgres makes rows, and no events. A row that grants what the
// log does not is not found. While the event store can't be reached, rows are taken as they are: nothing can be changed
// then.
type Proven struct {
	Queries *query.Queries
	Store   eventstore.Store
	// Await waits until a read model has applied an event.
	Await func(ctx context.Context, to eventstore.Position, readModels ...string) bool
	Now   func() time.Time
	Log   *slog.Logger

	known  *wire.Recent[string, proof]
	forged atomic.Int64
	rests  atomic.Int64 // until when the event store is not asked, in ns; it did not answer
}

// NewProven returns the credentials of a process.
func NewProven(queries *query.Queries, store eventstore.Store,
	await func(context.Context, eventstore.Position, ...string) bool, now func() time.Time, log *slog.Logger) *Proven {
	return &Proven{
		Queries: queries,
		Store:   store,
		Await:   await,
		Now:     now,
		Log:     log,
		known:   wire.NewRecent[string, proof](maxProven),
	}
}

// Forged counts the credentials that were refused because the log does not have them.
func (p *Proven) Forged() int64 { return p.forged.Load() }

// proof is a credential that was compared with the log.
type proof struct {
	row   [sha256.Size]byte
	until time.Time
}

// stored is a credential as a read model has it.
type stored struct {
	name      string // with its prefix
	readModel string
	row       string // all that it grants
	log       func(ctx context.Context) (logged, error)
	again     func(ctx context.Context) (row string, err error) // reads the row again; query.ErrNotFound if it is gone
}

// logged is the same credential as the log has it.
type logged struct {
	row string    // "" if it is not valid
	end time.Time // zero means never
	at  eventstore.Position
}

// errForged means that a row is not what the log says.
var errForged = errors.New("the row is not what the log says")

// check returns nil if a credential may be used, query.ErrNotFound if not, and errForged with it if the log has none
// such.
func (p *Proven) check(ctx context.Context, c stored) error {
	now, row := p.Now(), sha256.Sum256([]byte(c.row))
	if known, ok := p.known.Get(c.name); ok && known.row == row && now.Before(known.until) {
		return nil
	}
	if now.UnixNano() < p.rests.Load() {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	found, err := c.log(asking)
	if err != nil {
		p.rests.Store(now.Add(proofRest).UnixNano())
		p.Log.Warn("credential not compared with the log", "credential", c.name, "error", err)
		return nil
	}
	if found.row == c.row {
		until := now.Add(provenFor)
		if !found.end.IsZero() && found.end.Before(until) {
			until = found.end
		}
		p.known.Set(c.name, proof{row: row, until: until})
		return nil
	}
	return p.differs(ctx, c, found)
}

// differs returns errForged for a row that no event makes, and not for one that is behind the log.
func (p *Proven) differs(ctx context.Context, c stored, found logged) error {
	level, cancel := context.WithTimeout(ctx, proofLag)
	defer cancel()
	if !p.Await(level, found.at, c.readModel) {
		p.Log.Warn("credential refused: the log ended or changed it, and its read model is behind", "credential", c.name)
		return query.ErrNotFound
	}
	row, err := c.again(ctx)
	switch {
	case err != nil:
		return err
	case row == found.row: // it was behind
		return query.ErrNotFound
	}
	p.forged.Add(1)
	p.Log.Error("credential refused: its row in Postgres is not what the log says; find out who wrote it",
		"credential", c.name, "readModel", c.readModel)
	return errors.Join(errForged, query.ErrNotFound)
}

// FindKeys implements httpapi.Keys.
func (p *Proven) FindKeys(ctx context.Context, ids []string, now time.Time) ([]query.Key, error) {
	keys, err := p.Queries.FindKeys(ctx, ids, now)
	return slices.DeleteFunc(keys, func(k query.Key) bool { return p.check(ctx, p.key(k)) != nil }), err
}

func (p *Proven) key(k query.Key) stored {
	return stored{
		name:      string(credential.APIKey) + k.ID,
		readModel: organizations.ReadModel.Name,
		row:       rowOf(k.Organization, k.Hash, k.Scopes),
		log: func(ctx context.Context) (logged, error) {
			found, err := organization.Aggregate.Load(ctx, p.Store, k.Organization)
			return p.loggedKey(k, found), err
		},
		again: func(ctx context.Context) (string, error) {
			keys, err := p.Queries.FindKeys(ctx, []string{k.ID}, p.Now())
			if err != nil || len(keys) == 0 {
				return "", errors.Join(err, query.ErrNotFound)
			}
			return p.key(keys[0]).row, nil
		},
	}
}

// loggedKey returns a key as its organization's stream has it.
func (p *Proven) loggedKey(k query.Key, found eventstore.Loaded[organization.State]) logged {
	key := found.State.Keys[k.ID]
	l := logged{at: found.Position, end: key.End()}
	if key.WorksAt(p.Now()) && found.State.Status == organization.StatusRegistered {
		l.row = rowOf(k.Organization, key.Hash, key.Scopes)
	}
	return l
}

// OperatorToken implements adminapi.Tokens.
func (p *Proven) OperatorToken(ctx context.Context, id string, now time.Time) (query.OperatorToken, error) {
	found, err := p.Queries.OperatorToken(ctx, id, now)
	if err == nil {
		err = p.check(ctx, p.operator(id, found))
	}
	return found, err
}

func (p *Proven) operator(id string, t query.OperatorToken) stored {
	return stored{
		name:      string(credential.OperatorToken) + id,
		readModel: operators.ReadModel.Name,
		row:       rowOf(t.Name, t.Hash),
		log: func(ctx context.Context) (l logged, err error) {
			found, err := operator.Aggregate.Load(ctx, p.Store, operator.StreamID(t.Name))
			l.at = found.Position
			for _, token := range found.State.Tokens {
				if token.ID == id && token.ValidAt(p.Now()) {
					l.row, l.end = rowOf(found.State.Name, token.Hash), token.End()
				}
			}
			return l, err
		},
		again: func(ctx context.Context) (string, error) {
			t, err := p.Queries.OperatorToken(ctx, id, p.Now())
			return rowOf(t.Name, t.Hash), err
		},
	}
}

// AuditorToken implements adminapi.Tokens.
func (p *Proven) AuditorToken(ctx context.Context, id string, now time.Time) (query.AuditorToken, error) {
	found, err := p.Queries.AuditorToken(ctx, id, now)
	if err == nil {
		err = p.check(ctx, p.auditor(id, found))
	}
	return found, err
}

func (p *Proven) auditor(id string, t query.AuditorToken) stored {
	return stored{
		name:      string(credential.AuditorToken) + id,
		readModel: auditors.ReadModel.Name,
		row:       rowOf(t.Name, t.Organization, t.Hash),
		log: func(ctx context.Context) (l logged, err error) {
			found, err := auditor.Aggregate.Load(ctx, p.Store, auditor.StreamID(id))
			l.at = found.Position
			s := found.State
			if s.ExpiresAt != nil {
				l.end = *s.ExpiresAt
			}
			if s.Status == auditor.StatusIssued && (l.end.IsZero() || p.Now().Before(l.end)) {
				l.row = rowOf(s.Name, s.Organization, s.Hash)
			}
			return l, err
		},
		again: func(ctx context.Context) (string, error) {
			t, err := p.Queries.AuditorToken(ctx, id, p.Now())
			return rowOf(t.Name, t.Organization, t.Hash), err
		},
	}
}

// rowOf returns what a credential grants, besides its end: the log's counts.
func rowOf(parts ...any) string { return fmt.Sprintf("%q", parts) }

// Compare compares all credentials that Postgres says are valid with the log. It returns the names of the read models
// in which some are not what the log says.
func (p *Proven) Compare(ctx context.Context) (differ []string, err error) {
	const valid = " WHERE revoked_at IS NULL AND coalesce(expires_at > $1, true) ORDER BY "
	for _, of := range []struct {
		readModel, rows string // in an order in which those of a stream are together
		kind            credential.Kind
		find            func(id string) error
	}{
		{organizations.ReadModel.Name, "organizations.keys" + valid + "organization", credential.APIKey, p.compareKeys(ctx)},
		{operators.ReadModel.Name, "operators.tokens" + valid + "name", credential.OperatorToken, func(id string) error {
			_, err := p.OperatorToken(ctx, id, p.Now())
			return err
		}},
		{auditors.ReadModel.Name, "auditors.tokens" + valid + "name", credential.AuditorToken, func(id string) error {
			_, err := p.AuditorToken(ctx, id, p.Now())
			return err
		}},
	} {
		ids, err := p.ids(ctx, "SELECT id FROM "+of.rows)
		if err != nil {
			return differ, err
		}
		for _, id := range ids {
			p.known.Forget(string(of.kind) + id)
			err := of.find(id)
			switch {
			case errors.Is(err, errForged):
				if !slices.Contains(differ, of.readModel) {
					differ = append(differ, of.readModel)
				}
			case err != nil && !errors.Is(err, query.ErrNotFound): // it has ended
				return differ, err
			}
		}
	}
	return differ, nil
}

// compareKeys returns the comparison of a key. Those of an organization, one after the other, read its stream once.
func (p *Proven) compareKeys(ctx context.Context) func(id string) error {
	var of uuid.UUID
	var last eventstore.Loaded[organization.State]
	return func(id string) error {
		keys, err := p.Queries.FindKeys(ctx, []string{id}, p.Now())
		if err != nil || len(keys) == 0 {
			return err
		}
		k := keys[0]
		if k.Organization != of {
			if last, err = organization.Aggregate.Load(ctx, p.Store, k.Organization); err != nil {
				return err
			}
			of = k.Organization
		}
		if c := p.key(k); p.loggedKey(k, last).row != c.row { // it may be younger than the read
			return p.check(ctx, c)
		}
		return nil
	}
}

func (p *Proven) ids(ctx context.Context, valid string) ([]string, error) {
	rows, err := p.Queries.Pool.Query(ctx, valid, p.Now())
	if err != nil {
		return nil, wrap("valid credentials", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ids, wrap("valid credentials", err)
}
