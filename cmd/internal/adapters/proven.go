package adapters

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/auditor"
	"carillon/aggregates/operator"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command/credential"
	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/projections/auditors"
	"carillon/projections/operators"
	"carillon/projections/organizations"
	"carillon/query"
)

const (
	provenFor    = time.Hour       // a credential is compared with the log again after it
	proofTimeout = 3 * time.Second // of reading a stream
	headTimeout  = time.Second     // by then an event store that is there says so
	proofRest    = 5 * time.Second // after it did not
	proofLag     = 2 * time.Second // a read model has to be level with the log by then
	proofsAtOnce = 8
	maxProven    = 20_000
	comparedRows = 500 // that are read at one time
)

// Proven finds credentials in Postgres and compares each with the log: when this process uses it first, when its row
// has changed since, when its stream has, and after an hour. Write access to Postgres makes rows, and no events. A row
// that grants what the log does not is not found. While the event store can't be reached, rows are taken as they are:
// nothing can be changed then. A credential that can't be compared although the store is there is refused, by
// eventstore.ErrUnavailable.
type Proven struct {
	Queries *query.Queries
	Store   eventstore.Store
	// Await waits until a read model has applied an event.
	Await func(ctx context.Context, to eventstore.Position, readModels ...string) bool
	Now   func() time.Time
	Log   *slog.Logger

	known   *lru.Cache[string, proof]
	changed *lru.Cache[string, eventstore.Position] // the last event of a stream that Watch has heard
	forged  atomic.Int64
	rests   atomic.Int64 // until when the event store is taken to be away, in ns; 0 if it was there last
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
		changed: wire.NewRecent[string, eventstore.Position](maxProven),
	}
}

// Forged counts the credentials that were refused because the log does not have them.
func (p *Proven) Forged() int64 { return p.forged.Load() }

// Watch hears of what changes credentials until the context ends. Those of a changed stream are compared again, so that
// no row brings back by hand what has ended.
func (p *Proven) Watch(ctx context.Context) {
	streams := eventstore.Categories(
		organization.Aggregate.Category, operator.Aggregate.Category, auditor.Aggregate.Category)
	log := p.Log.With("consumer", "credentials")
	for ctx.Err() == nil {
		if from, err := p.Store.Head(ctx); err == nil {
			for message := range eventstore.Follow(ctx, p.Store, from, streams, log) {
				if e := message.Event; e != nil {
					p.changed.Add(e.Stream, message.Position)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(proofRest):
		}
	}
}

// proof is a credential that was compared with the log.
type proof struct {
	row   [sha256.Size]byte
	at    eventstore.Position // of the last event of its stream
	until time.Time
}

// stored is a credential as a read model has it.
type stored struct {
	name      string // with its prefix
	stream    string
	readModel string
	row       string // all that it grants
	log       func() (logged, error)
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
// such. It does not end with the request: that a caller went away says nothing about the store.
func (p *Proven) check(ctx context.Context, c stored) error {
	ctx = context.WithoutCancel(ctx)
	known, ok := p.known.Get(c.name)
	changed, _ := p.changed.Get(c.stream)
	if ok && known.row == sha256.Sum256([]byte(c.row)) && p.Now().Before(known.until) && !known.at.Before(changed) ||
		p.rests.Load() > 0 && p.away(ctx) {
		return nil
	}
	found, err := c.log()
	switch {
	case err == nil:
		return p.compare(ctx, c, found)
	case p.away(ctx):
		p.Log.Warn("credential not compared with the log", "credential", c.name, "error", err)
		return nil
	}
	p.Log.Error("credential refused: the log can't be read for it", "credential", c.name, "error", err)
	return fmt.Errorf("%w: compare a credential: %w", eventstore.ErrUnavailable, err)
}

// away reports whether the event store can't be reached. It is asked: one stream that can't be read says little.
func (p *Proven) away(ctx context.Context) bool {
	now := p.Now()
	if now.UnixNano() < p.rests.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	if _, err := p.Store.Head(ctx); !errors.Is(err, eventstore.ErrUnavailable) {
		p.rests.Store(0)
		return false
	}
	p.rests.Store(now.Add(proofRest).UnixNano())
	return true
}

// compare returns what check does, and remembers a proof.
func (p *Proven) compare(ctx context.Context, c stored, found logged) error {
	if found.row != c.row {
		return p.differs(ctx, c, found)
	}
	until := p.Now().Add(provenFor)
	if !found.end.IsZero() && found.end.Before(until) {
		until = found.end
	}
	p.known.Add(c.name, proof{row: sha256.Sum256([]byte(c.row)), at: found.at, until: until})
	return nil
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

// FindKeys implements httpapi.Keys. With an error it returns those that may be used all the same.
func (p *Proven) FindKeys(ctx context.Context, ids []string, now time.Time) (usable []query.Key, err error) {
	keys, err := p.Queries.FindKeys(ctx, ids, now)
	for i, refused := range p.each(keys, func(c stored) error { return p.check(ctx, c) }) {
		switch {
		case refused == nil:
			usable = append(usable, keys[i])
		case !errors.Is(refused, query.ErrNotFound):
			err = refused
		}
	}
	return usable, err
}

// each calls a function for each of some keys, several at once. The stream of an organization is read once at most,
// after the rows.
func (p *Proven) each(keys []query.Key, do func(stored) error) []error {
	type stream func() (func(query.Key) logged, error)
	streams, errs := map[uuid.UUID]stream{}, make([]error, len(keys))
	var group errgroup.Group
	group.SetLimit(proofsAtOnce)
	for i, k := range keys {
		of, ok := streams[k.Organization]
		if !ok {
			of = sync.OnceValues(func() (func(query.Key) logged, error) { return p.organization(k.Organization) })
			streams[k.Organization] = of
		}
		group.Go(func() error {
			errs[i] = panics.Catch("proof of a key", func() error { return do(p.key(k, of)) })
			return nil
		})
	}
	_ = group.Wait() // errs has them
	return errs
}

func (p *Proven) key(k query.Key, of func() (func(query.Key) logged, error)) stored {
	return stored{
		name:      string(credential.APIKey) + k.ID,
		stream:    organization.Aggregate.Stream(k.Organization),
		readModel: organizations.ReadModel.Name,
		row:       rowOf(k.Organization, k.Hash, k.Scopes),
		log: func() (logged, error) {
			find, err := of()
			if err != nil {
				return logged{}, err
			}
			return find(k), nil
		},
		again: func(ctx context.Context) (string, error) {
			keys, err := p.Queries.FindKeys(ctx, []string{k.ID}, p.Now())
			if err != nil || len(keys) == 0 {
				return "", errors.Join(err, query.ErrNotFound)
			}
			return rowOf(keys[0].Organization, keys[0].Hash, keys[0].Scopes), nil
		},
	}
}

// organization returns the keys of an organization as its stream has them.
func (p *Proven) organization(id uuid.UUID) (func(query.Key) logged, error) {
	found, err := load(p, organization.Aggregate, id)
	keys := found.State.Keys()
	return func(k query.Key) logged {
		key := keys[k.ID]
		l := logged{at: found.Position, end: key.End()}
		if key.WorksAt(p.Now()) && found.State.Status == organization.StatusRegistered {
			l.row = rowOf(id, key.Hash, key.Scopes)
		}
		return l
	}, err
}

// load reads a stream, whether or not the request that needs it goes on.
func load[S, E, C any](p *Proven, of eventstore.Aggregate[S, E, C], id uuid.UUID) (eventstore.Loaded[S], error) {
	ctx, cancel := context.WithTimeout(context.Background(), proofTimeout)
	defer cancel()
	return of.Load(ctx, p.Store, id)
}

// Token implements adminapi.Tokens.
func (p *Proven) Token(ctx context.Context, of query.Holder, id string, now time.Time) (query.Token, error) {
	found, err := p.Queries.Token(ctx, of, id, now)
	if err == nil {
		err = p.check(ctx, p.token(of, id, found))
	}
	return found, err
}

func (p *Proven) token(of query.Holder, id string, t query.Token) stored {
	token := stored{
		name:      string(credential.AuditorToken) + id,
		stream:    auditor.Aggregate.Stream(auditor.StreamID(id)),
		readModel: string(of),
		row:       rowOf(t.Name, t.Organization, t.Hash),
		log:       func() (logged, error) { return p.auditor(id) },
		again: func(ctx context.Context) (string, error) {
			t, err := p.Queries.Token(ctx, of, id, p.Now())
			return rowOf(t.Name, t.Organization, t.Hash), err
		},
	}
	if of == query.Operators {
		token.name = string(credential.OperatorToken) + id
		token.stream = operator.Aggregate.Stream(operator.StreamID(t.Name))
		token.log = func() (logged, error) { return p.operator(t.Name, id) }
	}
	return token
}

// operator returns a token of an operator as its stream has it.
func (p *Proven) operator(name, id string) (l logged, err error) {
	found, err := load(p, operator.Aggregate, operator.StreamID(name))
	l.at = found.Position
	for _, token := range found.State.Tokens {
		if token.ID == id && token.ValidAt(p.Now()) {
			l.row, l.end = rowOf(found.State.Name, uuid.Nil, token.Hash), token.End()
		}
	}
	return l, err
}

// auditor is operator for an auditor's.
func (p *Proven) auditor(id string) (l logged, err error) {
	found, err := load(p, auditor.Aggregate, auditor.StreamID(id))
	l.at = found.Position
	s := found.State
	if s.ExpiresAt != nil {
		l.end = *s.ExpiresAt
	}
	if s.Status == auditor.StatusIssued && (l.end.IsZero() || p.Now().Before(l.end)) {
		l.row = rowOf(s.Name, s.Organization, s.Hash)
	}
	return l, err
}

// rowOf returns what a credential grants, besides its end: the log's counts.
func rowOf(parts ...any) string { return fmt.Sprintf("%q", parts) }

// Compare compares all credentials that Postgres says are valid with the log. It returns the names of the read models
// in which some are not what the log says. It is an error if one can't be compared.
func (p *Proven) Compare(ctx context.Context) (differ []string, err error) {
	const valid = " WHERE revoked_at IS NULL AND coalesce(expires_at > $1, true) ORDER BY "
	compare := func(c stored) error {
		found, err := c.log()
		if err != nil {
			return err
		}
		return p.compare(ctx, c, found)
	}
	tokens := func(of query.Holder) func([]string) []error {
		return func(ids []string) (errs []error) {
			for _, id := range ids {
				token, err := p.Queries.Token(ctx, of, id, p.Now())
				if err == nil {
					err = compare(p.token(of, id, token))
				}
				errs = append(errs, err)
			}
			return errs
		}
	}
	for _, of := range []struct {
		readModel, rows string // in an order in which those of a stream are together
		compare         func(ids []string) []error
	}{
		{organizations.ReadModel.Name, "organizations.keys" + valid + "organization", func(ids []string) []error {
			keys, err := p.Queries.FindKeys(ctx, ids, p.Now())
			return append(p.each(keys, compare), err)
		}},
		{operators.ReadModel.Name, "operators.tokens" + valid + "name", tokens(query.Operators)},
		{auditors.ReadModel.Name, "auditors.tokens" + valid + "name", tokens(query.Auditors)},
	} {
		ids, err := p.ids(ctx, "SELECT id FROM "+of.rows)
		if err != nil {
			return differ, err
		}
		for some := range slices.Chunk(ids, comparedRows) {
			for _, err := range of.compare(some) {
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
	}
	return differ, nil
}

func (p *Proven) ids(ctx context.Context, valid string) ([]string, error) {
	rows, _ := p.Queries.Pool.Query(ctx, valid, p.Now())
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ids, wrap("valid credentials", err)
}
