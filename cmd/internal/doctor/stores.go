package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/custody"
	"carillon/command/sealing"
	"carillon/eventstore/esdb"
	"carillon/projections/postgres"
)

const (
	slowAnswer = 20 * time.Millisecond // of a store, to the smallest question
	clockError = time.Second
	asked      = 9 // times, of which the median counts
)

// connect opens a session of the Postgres that is configured.
func connect(ctx context.Context, p *Patient) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, p.Config.DatabaseURL.Reveal())
	if err != nil {
		return nil, app.DatabaseTrouble(err)
	}
	return conn, nil
}

func database(ctx context.Context, p *Patient) (string, error) {
	if p.Config.DatabaseURL == "" {
		found, err := postgres.Find(ctx, p.Config.PostgresBin)
		return "private: " + found.Version, err
	}
	conn, err := connect(ctx, p)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	var version string
	var number int
	err = conn.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('server_version_num')::int").
		Scan(&version, &number)
	if err != nil {
		return "", err
	}
	if number/10000 < postgres.MinVersion {
		return "", fail(fmt.Sprintf("upgrade it to %d or newer", postgres.MinVersion), "version %s", version)
	}
	took, err := median(asked, func() error { return conn.Ping(ctx) })
	if err == nil && took > slowAnswer {
		err = warn("bring it nearer: each request asks it several times", "version %s; it answers in %s", version, took)
	}
	return fmt.Sprintf("version %s; it answers in %s", version, took), err
}

// median returns how long something takes, usually.
func median(times int, do func() error) (time.Duration, error) {
	took := make([]time.Duration, times)
	for i := range took {
		began := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[times/2].Round(10 * time.Microsecond), nil
}

// databaseSettings looks for those by which Postgres forgets what it has acknowledged, and for room for the sessions.
func databaseSettings(ctx context.Context, p *Patient) (string, error) {
	if p.Config.DatabaseURL == "" {
		return "", skip("private: Carillon sets them")
	}
	conn, err := connect(ctx, p)
	if err != nil {
		return "", skip("it can't be asked")
	}
	defer func() { _ = conn.Close(ctx) }()
	var off []string
	var most, others int
	err = conn.QueryRow(ctx, `SELECT
		(SELECT coalesce(array_agg(name), '{}') FROM pg_settings
			WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'),
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())`).
		Scan(&off, &most, &others)
	need := p.Config.Connections() + 1
	switch {
	case err != nil:
		return "", err
	case need > most:
		return "", fail("raise max_connections, or lower CARILLON_DATABASE_CONNECTIONS",
			"%d sessions are possible, and this process needs %d", most, need)
	case len(off) > 0:
		return "", warn("switch them on: after a crash data keys and deliveries are lost", "off: %s", strings.Join(off, ", "))
	case need > most-others:
		return "", warn("raise max_connections, unless the others are this process's",
			"%d sessions are possible, %d are open, and this process needs %d", most, others, need)
	}
	return fmt.Sprintf("%d sessions are possible, this process needs %d", most, need), nil
}

func clock(ctx context.Context, p *Patient) (string, error) {
	if p.Config.DatabaseURL == "" {
		return "", skip("there is no other clock")
	}
	conn, err := connect(ctx, p)
	if err != nil {
		return "", skip("Postgres can't be asked")
	}
	defer func() { _ = conn.Close(ctx) }()
	var there time.Time
	before := p.Now()
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
		return "", err
	}
	off := p.Now().Sub(there)
	if way := p.Now().Sub(before); off > way+clockError || off < -clockError {
		return "", warn("run a time service (NTP) on both: until then Postgres' clock is used",
			"this machine's differs from Postgres' by %s", off.Round(time.Millisecond))
	}
	return "as Postgres'", nil
}

func eventStore(ctx context.Context, p *Patient) (string, error) {
	url := p.Config.EventStoreURL.Reveal()
	if url == "" {
		return "embedded", nil // its data is verified by another command
	}
	store, err := esdb.Open(url, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", fmt.Errorf("CARILLON_EVENTSTORE_URL: %w", err)
	}
	defer func() { _ = store.Close() }()
	if _, err := store.Head(ctx); err != nil {
		return "", fail("is it running there, and are host, port, TLS, user and password of CARILLON_EVENTSTORE_URL right?",
			"%v", err)
	}
	took, err := median(asked, func() error { _, err := store.Head(ctx); return err })
	if err == nil && took > slowAnswer {
		err = warn("bring it nearer: each write waits for it", "it answers in %s", took)
	}
	return fmt.Sprintf("it answers in %s", took), err
}

func masterKey(_ context.Context, p *Patient) (string, error) {
	settings := p.Config // reading fills them in
	keys, err := settings.ReadMasters()
	if entries, _ := os.ReadDir(p.Config.DataDir); err != nil && len(entries) == 0 {
		return "", skip("it is made at the first start")
	}
	if err != nil {
		return "", err
	}
	id, err := sealing.MasterID(keys[0])
	return id.String(), err
}

// dataKeys reads the data keys in each place that has them, and compares the places.
func dataKeys(ctx context.Context, p *Patient) (string, error) {
	places, closeAll, err := keyPlaces(ctx, p)
	if err != nil {
		return "", err
	}
	defer closeAll()
	var kept []map[uuid.UUID][]byte
	for _, place := range places {
		keys, err := place.Read(ctx)
		answer, answered := errors.AsType[*pgconn.PgError](err)
		_, away := errors.AsType[*pgconn.ConnectError](err)
		switch {
		case answered && answer.Code == noTable:
			return "", skip("they are made at the first start")
		case away:
			return "", skip("Postgres can't be asked")
		}
		if err != nil {
			return "", fail("make it readable: without the data keys no stored secret can be read", "%v", err)
		}
		kept = append(kept, keys)
	}
	same := func(_, _ []byte) bool { return true } // each place may wrap them by its own key
	switch {
	case len(kept) == 0:
		return "", skip("the private Postgres keeps them")
	case len(kept) == 2 && !maps.EqualFunc(kept[0], kept[1], same):
		return "", warn("start the server, which completes both, and read its log",
			"Postgres has %d, and the copy has %d or others", len(kept[0]), len(kept[1]))
	}
	return fmt.Sprintf("%d, places: %d", len(kept[0]), len(kept)), nil
}

const noTable = "42P01" // undefined_table

// keyPlaces are the places that have the data keys: their home, and the copy if there is one.
func keyPlaces(ctx context.Context, p *Patient) (places []custody.Stored, closeAll func(), err error) {
	closeAll = func() {}
	if home := p.Config.KeyHome(); home != "" {
		return []custody.Stored{custody.InDir(home)}, closeAll, nil
	}
	if url := p.Config.DatabaseURL.Reveal(); url != "" {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return nil, closeAll, app.DatabaseTrouble(err)
		}
		closeAll = pool.Close
		places = append(places, custody.InTable(pool))
	}
	switch url, dir := p.Config.KeyDatabase(), p.Config.KeyDir(); {
	case url != "":
		copied, err := custody.InDatabase(url)
		if err != nil {
			return nil, closeAll, err
		}
		home := closeAll
		return append(places, copied), func() { copied.Close(); home() }, nil
	case dir != "":
		places = append(places, custody.InDir(dir))
	}
	return places, closeAll, nil
}
