package custody_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/custody"
	"carillon/command/sealing"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/projections"
	"carillon/projections/clientcertificates"
	"carillon/projections/destinations"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

var (
	alice  = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	master = bytes.Repeat([]byte{7}, 32)
	second = bytes.Repeat([]byte{8}, 32)
)

// world is an installation: a Postgres, an event store, and directories.
type world struct {
	*testing.T
	pool      *pgxpool.Pool
	store     *esdb.Store
	dir, copy string
	masters   [][]byte
	database  string // of the key store; empty: the directory
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{T: t, store: nodetest.Start(t), dir: filepath.Join(t.TempDir(), "keys"), copy: t.TempDir(), masters: [][]byte{master}}
	w.newPostgres()
	return w
}

// newPostgres is what is left where Postgres is lost.
func (w *world) newPostgres() {
	w.Helper()
	w.pool = projecttest.Pool(w.T)
	for _, model := range []projections.ReadModel{destinations.ReadModel, clientcertificates.ReadModel} {
		if err := projections.EnsureSchema(w.Context(), w.pool, model); err != nil {
			w.Fatal(err)
		}
	}
}

// process is one process of the installation, as far as its keys go.
type process struct {
	*custody.Custody
	vault *sealing.Vault
}

func (w *world) make() process {
	w.Helper()
	ring, err := sealing.NewRing(w.masters[0], w.masters[1:]...)
	if err != nil {
		w.Fatal(err)
	}
	cfg := custody.Config{
		Pool: w.pool, Locks: pgtest.Locks(w.T, w.pool), Ring: ring, Store: w.store, Dir: w.dir, Copy: w.copy, Database: w.database,
		Now: time.Now, Log: slog.New(slog.NewTextHandler(w.Output(), nil)),
	}
	if w.database != "" {
		cfg.Dir = ""
	}
	c, err := custody.New(cfg)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(c.Close)
	return process{c, sealing.NewVaultOn(c, ring)}
}

func (w *world) open() process {
	w.Helper()
	p := w.make()
	if err := p.Open(w.Context()); err != nil {
		w.Fatal(err)
	}
	return p
}

// create makes a destination whose secret is its own id.
func (w *world) create(p process) uuid.UUID {
	w.Helper()
	id := uuid.New()
	if err := p.vault.Create(w.Context(), id); err != nil {
		w.Fatal(err)
	}
	sealed, err := p.vault.Seal(w.Context(), id, sealing.Secret, id[:])
	if err != nil {
		w.Fatal(err)
	}
	w.execute(id, destination.Create{Organization: alice, SecretID: id, Secret: sealed, At: time.Now(), Settings: destination.Settings{Name: "CRM", URL: nowhere}})
	return id
}

const nowhere = "https://example.org/hook"

func (w *world) execute(id uuid.UUID, command destination.Command) {
	w.Helper()
	if _, err := destination.Aggregate.Execute(w.Context(), w.store, id, command, destination.Options{CommandID: uuid.New()}); err != nil {
		w.Fatal(err)
	}
}

// delete ends a destination; its key is yet to be shredded.
func (w *world) delete(id uuid.UUID) {
	w.Helper()
	w.execute(id, destination.Delete{Organization: alice, At: time.Now()})
}

// opens expects that a process opens the secrets of destinations.
func (w *world) opens(p process, ids ...uuid.UUID) {
	w.Helper()
	for _, id := range ids {
		known, err := destination.Aggregate.Load(w.Context(), w.store, id)
		if err != nil {
			w.Fatal(err)
		}
		plain, err := p.vault.Open(w.Context(), id, sealing.Secret, known.State.Secrets[0].Sealed)
		if err != nil || !bytes.Equal(plain, id[:]) {
			w.Errorf("the secret of %s opened to %x, %v", id, plain, err)
		}
	}
}

func (w *world) exec(sql string, arguments ...any) {
	w.Helper()
	if _, err := w.pool.Exec(w.Context(), sql, arguments...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) row(id uuid.UUID) (wrapped []byte) {
	w.Helper()
	if err := w.pool.QueryRow(w.Context(), "SELECT wrapped FROM carillon.data_keys WHERE id = $1", id).Scan(&wrapped); err != nil {
		w.Fatal(err)
	}
	return wrapped
}

func (w *world) slots() string { return filepath.Join(w.dir, "slots") }

func (w *world) read(path string) []byte {
	w.Helper()
	data, err := os.ReadFile(path) //nolint:gosec // the test's own
	if err != nil {
		w.Fatal(err)
	}
	return data
}

func (w *world) write(path string, data []byte) {
	w.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.Fatal(err)
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestKeysThatAnEarlierVersionKeptAreCarriedOver: they were in Postgres alone, and named no key.
func TestKeysThatAnEarlierVersionKeptAreCarriedOver(t *testing.T) {
	w := newWorld(t)
	const (
		key = "01935c9a8d69177919820ffb678ac7448dda8236d093ae0048196ee2f1333ebfb6df82f11db0ea8888aee88b4fb636ddb46b0b47" +
			"cd2afe9142ae10aa679ba9ea5133288cd24d76f670768027d7cf9a188c76e987f260b47c2417835707"
		value = "01dc75fbf3292bad0b47c8cfc390ea30458a458bdf19a2a3d037d152fddc5be9d58c6ac2d22d96441e0b3f"
	)
	w.exec("INSERT INTO carillon.data_keys (id, wrapped) VALUES ($1, $2)", alice, unhex(t, key))
	w.execute(alice, destination.Create{Organization: alice, SecretID: alice, Secret: unhex(t, value), At: time.Now(), Settings: destination.Settings{Name: "CRM", URL: nowhere}})
	w.open()
	if id, named := sealing.WrappedBy(w.row(alice)); !named {
		t.Errorf("the key in Postgres names no key: %s", id)
	}
	w.newPostgres()
	plain, err := w.open().vault.Open(t.Context(), alice, sealing.Secret, unhex(t, value))
	if err != nil || string(plain) != "whsec_c3RvcmVk" {
		t.Errorf("opened %q, error = %v", plain, err)
	}
}

// TestWhatWasShreddedAndComesBackIsShreddedAgain: a backup of one place brings a key back.
func TestWhatWasShreddedAndComesBackIsShreddedAgain(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	gone, stays := w.create(p), w.create(p)
	slots, row := w.read(w.slots()), w.row(gone)
	w.delete(gone)
	if err := p.vault.Shred(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	for what, back := range map[string]func(){
		"the key store": func() { w.write(w.slots(), slots) },
		"Postgres":      func() { w.exec("INSERT INTO carillon.data_keys (id, wrapped) VALUES ($1, $2)", gone, row) },
	} {
		back()
		p := w.open()
		if _, err := p.Find(t.Context(), gone); !errors.Is(err, sealing.ErrShredded) {
			t.Errorf("%s: it is back: %v", what, err)
		}
		if bytes.Contains(w.read(w.slots()), gone[:]) {
			t.Errorf("%s: it is back in its slot", what)
		}
		w.opens(p, stays)
	}
}

func TestADeletionWhoseShreddingWasCutOffIsFinished(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	gone := w.create(p)
	w.delete(gone)
	if err := p.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Find(t.Context(), gone); !errors.Is(err, sealing.ErrShredded) || bytes.Contains(w.read(w.slots()), gone[:]) {
		t.Errorf("it is there: %v", err)
	}
}

// TestDamagedPartsAreRestored damages each part of the files that is in use by itself.
func TestDamagedPartsAreRestored(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	ids := []uuid.UUID{w.create(p), w.create(p), w.create(p)}
	for path, parts := range map[string][]int{
		w.slots():                          {0, 512, 4096, 4096 + 256, 4096 + 512},
		filepath.Join(w.dir, "epoch.key"):  {0, 512},
		filepath.Join(w.copy, "epoch.key"): {0, 512},
	} {
		whole := w.read(path)
		for _, at := range parts {
			damaged := bytes.Clone(whole)
			damaged[at+3] ^= 0x55
			damaged[at+40] ^= 0x55
			w.write(path, damaged)
			p := w.open()
			w.opens(p, ids...)
			if lost := p.Lost(); lost.Any() {
				t.Fatalf("%s at %d: lost %v", path, at, lost)
			}
		}
		w.write(path, whole[:len(whole)/2])
		w.opens(w.open(), ids...)
	}
	w.exec("UPDATE carillon.data_keys SET wrapped = set_byte(wrapped, 29, 255 - get_byte(wrapped, 29)) WHERE id = $1", ids[0])
	w.opens(w.open(), ids...)
	w.newPostgres()
	w.opens(w.open(), ids...)
}

// TestRenewalLeavesNothingOfTheOldEpoch: what Postgres has kept opens no more.
func TestRenewalLeavesNothingOfTheOldEpoch(t *testing.T) {
	w := newWorld(t)
	p, other := w.open(), w.open()
	gone, stays := w.create(p), w.create(other)
	kept, epoch := w.row(gone), w.read(filepath.Join(w.dir, "epoch.key"))[512+32:512+64]
	w.delete(gone)
	if err := p.vault.Shred(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if err := p.Ring.Opens(gone, kept); err != nil {
		t.Fatalf("before: %v", err) // the test could not fail
	}
	if err := p.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{w.dir, w.copy} {
		if bytes.Contains(w.read(filepath.Join(dir, "epoch.key")), epoch) {
			t.Errorf("%s has the old epoch key", dir)
		}
	}
	for _, p := range []process{p, w.open()} {
		if err := p.Ring.Opens(gone, kept); err == nil {
			t.Error("what Postgres has kept of a shredded key opens")
		}
		w.opens(p, stays)
	}
	// The other process has the old epoch key in memory: it takes in the new one.
	late := w.create(other)
	w.opens(other, stays, late)
	w.opens(p, late)
}

// TestEveryInstantOfARenewalAndARotation is killed at each write of a file, and at each after it.
func TestEveryInstantOfARenewalAndARotation(t *testing.T) {
	w := newWorld(t)
	w.masters = [][]byte{master, second}
	p := w.open()
	ids := []uuid.UUID{w.create(p), w.create(p)}
	killed := errors.New("killed here")
	finished := map[string]bool{}
	for what, change := range map[string]func(process) error{
		"renewal": func(p process) error { return p.Renew(t.Context()) },
		"rotation": func(p process) error {
			next := second
			if id, err := sealing.MasterID(second); err != nil || p.Ring.Base() == id {
				next = master
			}
			return p.RotateMaster(t.Context(), next, func() error { return nil })
		},
	} {
		for n := 0; !finished[what]; n++ {
			p := w.open()
			writes := 0
			p.FailWrites(func() error {
				if writes++; writes > n {
					return killed
				}
				return nil
			})
			err := change(p)
			if finished[what] = err == nil; err != nil && !errors.Is(err, killed) {
				t.Fatalf("%s, write %d: %v", what, n, err)
			}
			p.Close()
			again := w.open()
			w.opens(again, ids...)
		}
	}
	w.opens(w.open(), ids...)
	w.newPostgres()
	w.opens(w.open(), ids...)
}

func TestAfterARotationTheOldMasterKeyOpensNothing(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	id := w.create(p)
	if err := p.RotateMaster(t.Context(), second, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	w.opens(p, id, w.create(p))
	var wrong *custody.WrongMasterError
	if err := w.make().Open(t.Context()); !errors.As(err, &wrong) {
		t.Errorf("the old master key: %v", err)
	}
	w.masters = [][]byte{second}
	w.opens(w.open(), id)
}

// TestProcessesShareAKeyStore: each makes destinations while one renews and another rotates.
func TestProcessesShareAKeyStore(t *testing.T) {
	w := newWorld(t)
	w.masters = [][]byte{master, second}
	processes := []process{w.open(), w.open(), w.open()}
	made := make(chan uuid.UUID)
	for _, p := range processes[:2] {
		go func() {
			for range 20 {
				made <- w.create(p)
			}
		}()
	}
	changed := make(chan error, 1)
	go func() {
		var err error
		for range 3 {
			err = errors.Join(err, processes[2].Renew(t.Context()))
		}
		changed <- errors.Join(err, processes[2].RotateMaster(t.Context(), second, func() error { return nil }))
	}()
	var ids []uuid.UUID
	for range 40 {
		ids = append(ids, <-made)
	}
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		w.opens(p, ids...)
	}
	w.masters = [][]byte{second}
	if err := w.open().Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.newPostgres()
	w.opens(w.open(), ids...)
}

func TestAKeyStoreThatCanNotBeWrittenMakesNoDestination(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	id := w.create(p)
	full := errors.New("no space left on device")
	p.FailWrites(func() error { return full })
	if err := p.vault.Create(t.Context(), uuid.New()); !errors.Is(err, full) {
		t.Errorf("create: %v", err)
	}
	w.delete(id)
	if err := p.vault.Shred(t.Context(), id); !errors.Is(err, full) {
		t.Errorf("shred: %v", err)
	}
	p.FailWrites(nil)
	w.create(p)
	if err := p.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(w.read(w.slots()), id[:]) {
		t.Error("what could not be shredded then is not shredded now")
	}
}

func TestASecondDatabaseKeepsKeys(t *testing.T) {
	w := newWorld(t)
	w.database = pgtest.URL(t)
	p := w.open()
	id, gone := w.create(p), w.create(p)
	w.delete(gone)
	if err := p.vault.Shred(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	w.newPostgres()
	p = w.open()
	w.opens(p, id)
	if _, err := p.Find(t.Context(), gone); !errors.Is(err, sealing.ErrShredded) {
		t.Errorf("the shredded one: %v", err)
	}
	w.database = pgtest.URL(t)
	w.opens(w.open(), id)
	w.database = "postgres://nobody:hunter2@127.0.0.1:1/keys"
	p = w.open()
	if p.Trouble() == nil || p.Lost().Any() {
		t.Errorf("trouble %v, lost %v", p.Trouble(), p.Lost())
	}
	w.opens(p, id)
	if err := p.vault.Create(t.Context(), uuid.New()); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("create: %v", err)
	}
}

func TestLostKeysAreThoseOfLiveDestinations(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	lost, deleted, stays := w.create(p), w.create(p), w.create(p)
	w.delete(deleted)
	slots := custody.NewSlots(w.dir, time.Now) // another process, as it were
	if err := slots.Erase(t.Context(), lost, deleted); err != nil {
		t.Fatal(err)
	}
	slots.Close()
	w.exec("DELETE FROM carillon.data_keys WHERE id = ANY($1)", []uuid.UUID{lost, deleted})
	p = w.open()
	if !slices.Equal(p.Lost().Destinations, []uuid.UUID{lost}) {
		t.Errorf("lost %v, want %s", p.Lost(), lost)
	}
	w.opens(p, stays)
}
