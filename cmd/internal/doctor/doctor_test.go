package doctor_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/doctor"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/suite"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// patient is an installation in which nothing fails: stores elsewhere, both with the same data keys.
func patient(t *testing.T) *doctor.Patient {
	t.Helper()
	dir := t.TempDir()
	cfg := config.ForDemo(dir, "")
	cfg.DatabaseURL = config.Address(apitest.Prepared.URL(t))
	cfg.EventStoreURL = config.Address("esdb://" + nodetest.Listen(t, node.Config{Dir: t.TempDir()}) + "?tls=false")
	cfg.KeyStore = config.Address(t.TempDir())
	cfg.DeliveryAllowCIDRs = nil
	must.OK(t, cfg.EnsureSecrets())
	return &doctor.Patient{Config: cfg, Now: time.Now}
}

// certificate writes one that is valid for a name within a time, and its key's file.
func certificate(t *testing.T, name string, from, until time.Time) (file string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	made := must.Get(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    from,
		NotAfter:     until,
		DNSNames:     []string{name},
	}, &x509.Certificate{SerialNumber: big.NewInt(1)}, &key.PublicKey, key))(t)
	file = filepath.Join(t.TempDir(), "cert.pem")
	must.OK(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o600))
	return file
}

// answering serves one answer to everything, and returns its address.
func answering(t *testing.T, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const nothingHere = `{"success":false,"error":{"code":"NOT_FOUND","message":"no such route: see /docs"}}`

// TestExamine plants one fault at a time. Each is found by its check, and by no other but those named beside it.
func TestExamine(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		fault  string
		plant  func(*testing.T, *doctor.Patient)
		check  string
		state  doctor.State
		found  string
		beside string // other checks that fail by the same fault
	}{
		{fault: "none", plant: func(*testing.T, *doctor.Patient) {}},
		{
			fault: "mistyped variable",
			plant: func(_ *testing.T, p *doctor.Patient) { p.Unknown = []string{"CARILLON_HTP_ADDR"} },
			check: "settings",
			state: doctor.Warning,
			found: "CARILLON_HTP_ADDR",
		},
		{
			fault: "only this machine can use the API",
			plant: func(_ *testing.T, p *doctor.Patient) { p.Config.HTTPAddr = "0.0.0.0:0" },
			check: "settings",
			state: doctor.Warning,
			found: "CARILLON_TLS_CERT",
		},
		{
			fault: "data directory is a file",
			plant: func(t *testing.T, p *doctor.Patient) {
				p.Config.MasterKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
				p.Config.DataDir = certificate(t, "x", now, now)
			},
			check: "data directory",
			state: doctor.Failed,
			found: "is a file",
		},
		{
			fault: "others may write to the data directory",
			plant: func(t *testing.T, p *doctor.Patient) {
				if err := os.Chmod(p.Config.DataDir, 0o777); err != nil { //nolint:gosec // the fault
					t.Fatal(err)
				}
			},
			check: "data directory",
			state: doctor.Failed,
			found: "chmod go-w",
		},
		{
			fault:  "a name without an address",
			plant:  func(_ *testing.T, p *doctor.Patient) { p.Config.SealTo = "https://heads.invalid/x" },
			check:  "name resolution",
			state:  doctor.Failed,
			found:  "heads.invalid has no address",
			beside: "egress",
		},
		{
			fault: "Postgres is away",
			plant: func(_ *testing.T, p *doctor.Patient) {
				p.Config.DatabaseURL = "postgres://carillon:hunter2@127.0.0.1:1/x"
			},
			check: "postgres",
			state: doctor.Failed,
			found: "can't be reached",
		},
		{
			fault: "too few sessions of Postgres",
			plant: func(_ *testing.T, p *doctor.Patient) { p.Config.DatabaseConnections = 1000 },
			check: "postgres settings",
			state: doctor.Failed,
			found: "needs 1001",
		},
		{
			fault: "Postgres forgets at a crash, as that of tests",
			plant: func(*testing.T, *doctor.Patient) {},
			check: "postgres settings",
			state: doctor.Warning,
			found: "off: fsync",
		},
		{
			fault: "the clock is wrong",
			plant: func(_ *testing.T, p *doctor.Patient) {
				p.Now = func() time.Time { return time.Now().Add(-time.Minute) }
			},
			check: "clock",
			state: doctor.Warning,
			found: "differs from Postgres' by -",
		},
		{
			fault: "the event store is away",
			plant: func(_ *testing.T, p *doctor.Patient) { p.Config.EventStoreURL = "esdb://127.0.0.1:1?tls=false" },
			check: "event store",
			state: doctor.Failed,
			found: "127.0.0.1:1",
		},
		{
			fault: "the master key is gone",
			plant: func(t *testing.T, p *doctor.Patient) {
				p.Config.MasterKey = ""
				must.OK(t, os.Remove(filepath.Join(p.Config.DataDir, config.MasterKeyFile)))
			},
			check: "master key",
			state: doctor.Failed,
			found: "there is no master key",
		},
		{
			fault: "the copy of the data keys has others",
			plant: func(t *testing.T, p *doctor.Patient) {
				other := custody.InDir(p.Config.KeyStore.Reveal())
				must.OK(t, other.Fill(t.Context(), map[uuid.UUID][]byte{uuid.New(): []byte("wrapped")}))
			},
			check: "data keys",
			state: doctor.Warning,
			found: "Postgres has 0",
		},
		{
			fault: "certificate expired",
			plant: func(t *testing.T, p *doctor.Patient) {
				p.Config.TLSCert = certificate(t, "x", now.AddDate(-1, 0, 0), now.AddDate(0, 0, -1))
			},
			check: "certificate",
			state: doctor.Failed,
			found: "expired at",
		},
		{
			fault: "certificate expires soon",
			plant: func(t *testing.T, p *doctor.Patient) {
				p.Config.TLSCert = certificate(t, "x", now.AddDate(-1, 0, 0), now.AddDate(0, 0, 10))
			},
			check: "certificate",
			state: doctor.Warning,
			found: "9 days left",
		},
		{
			fault: "certificate of another name",
			plant: func(t *testing.T, p *doctor.Patient) {
				p.Config.TLSCert = certificate(t, "elsewhere.example", now.AddDate(-1, 0, 0), now.AddDate(1, 0, 0))
				p.Public = answering(t, nothingHere)
			},
			check:  "certificate",
			state:  doctor.Failed,
			found:  "127.0.0.1",
			beside: "public address",
		},
		{
			fault: "another program listens",
			plant: func(t *testing.T, p *doctor.Patient) {
				p.Config.AdminAddr = strings.TrimPrefix(answering(t, "It works!"), "http://")
			},
			check: "admin address",
			state: doctor.Failed,
			found: "address already in use",
		},
		{
			fault: "the proxy does not say that its peer used HTTPS",
			plant: func(t *testing.T, p *doctor.Patient) {
				p.Public = answering(t, `{"success":false,"error":{"code":"UNAUTHORIZED","message":"plain HTTP is not accepted"}}`)
			},
			check: "public address",
			state: doctor.Failed,
			found: "believes that clients use plain HTTP",
		},
		{
			fault: "the proxy sends elsewhere",
			plant: func(t *testing.T, p *doctor.Patient) { p.Public = answering(t, "welcome to nginx") },
			check: "public address",
			state: doctor.Failed,
			found: "another program",
		},
		{
			fault: "an address without a scheme",
			plant: func(_ *testing.T, p *doctor.Patient) { p.Public = "events.example.com" },
			check: "public address",
			state: doctor.Failed,
			found: "events.example.com: an address begins with https://",
		},
		{
			fault: "a receiver without a scheme",
			plant: func(_ *testing.T, p *doctor.Patient) { p.Reach = []string{"hooks.example.com"} },
			check: "egress",
			state: doctor.Failed,
			found: "hooks.example.com: an address begins with https://",
		},
		{
			fault: "a receiver that must not be reached",
			plant: func(t *testing.T, p *doctor.Patient) {
				p.Config.Dev = false
				p.Reach = []string{answering(t, "") + "/hooks/hunter2"}
			},
			check: "egress",
			state: doctor.Failed,
			found: "127.0.0.1",
		},
		{
			fault: "no backup",
			plant: func(t *testing.T, p *doctor.Patient) { p.Backups = t.TempDir() },
			check: "backup",
			state: doctor.Failed,
			found: "holds no whole backup",
		},
		{
			fault: "an old backup",
			plant: func(t *testing.T, p *doctor.Patient) {
				p.Backups = t.TempDir()
				made := []byte(`{"madeAt":"` + now.Add(-50*time.Hour).UTC().Format(time.RFC3339) + `"}`)
				must.OK(t, os.WriteFile(filepath.Join(p.Backups, "backup.json"), made, 0o600))
			},
			check: "backup",
			state: doctor.Warning,
			found: "50h0m0s old",
		},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			p := patient(t)
			c.plant(t, p)
			seen := false
			doctor.Examine(t.Context(), p, func(f doctor.Finding) {
				assert.True(t, !strings.Contains(f.Found+f.Remedy, "hunter2"), "a secret shows: %+v", f)
				switch {
				case f.Check == c.check:
					seen = true
					assert.True(t, f.State == c.state && strings.Contains(f.Found, c.found),
						"%+v, want %s and %q", f, c.state, c.found)
				case f.State == doctor.Failed && f.Check != c.beside:
					t.Errorf("%+v besides", f)
				}
			})
			if c.check != "" && !seen {
				t.Errorf("no check %q", c.check)
			}
		})
	}
}

// TestExamine_beside runs it where a Carillon listens already.
func TestExamine_beside(t *testing.T) {
	t.Parallel()
	p := patient(t)
	p.Config.HTTPAddr = strings.TrimPrefix(answering(t, nothingHere), "http://")
	doctor.Examine(context.Background(), p, func(f doctor.Finding) {
		if f.Check == "API address" && (f.State != doctor.Good || !strings.Contains(f.Found, "is a Carillon's")) {
			t.Errorf("%+v", f)
		}
	})
}
