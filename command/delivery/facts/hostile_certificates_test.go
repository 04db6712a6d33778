package facts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/command"
	"carillon/command/egress"
	"carillon/command/mtls/mtlstest"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// keys is a store of data keys.
type keys struct{ kept sync.Map }

func (k *keys) Add(_ context.Context, owner uuid.UUID, wrapped []byte) error {
	k.kept.LoadOrStore(owner, wrapped)
	return nil
}

func (k *keys) Find(_ context.Context, owner uuid.UUID) ([]byte, error) {
	if found, ok := k.kept.Load(owner); ok {
		return found.([]byte), nil //nolint:forcetypeassert // Add
	}
	return nil, sealing.ErrShredded
}

func (k *keys) Delete(_ context.Context, owner uuid.UUID) error {
	k.kept.Delete(owner)
	return nil
}

// shop sets certificates, and has several processes that show them to one receiver.
type shop struct {
	*testing.T
	commands  *command.Commands
	keys      *keys
	authority *mtlstest.Authority
	receiver  *mtlstest.Receiver
	secret    webhook.Secret
}

func openShop(t *testing.T, want func(*mtlstest.Authority) *tls.Config, answer http.HandlerFunc) *shop {
	t.Helper()
	s := &shop{T: t, keys: &keys{}, authority: mtlstest.NewAuthority(t, "Receiver's")}
	vault := must.Get(sealing.NewVault(s.keys, make([]byte, 32)))(t)
	s.commands = &command.Commands{Store: nodetest.Start(t), Now: time.Now, Vault: vault}
	s.receiver = mtlstest.Receive(t, want(s.authority), answer)
	s.secret = must.Get(webhook.Mint(neverEnding{}))(t)
	return s
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

func (s *shop) organization() uuid.UUID {
	s.Helper()
	made := must.Get(s.commands.RegisterOrganization(s.Context(), command.Caller{Actor: "operator"},
		command.RegisterOrganization{Name: "O"}))(s)
	return made.ID
}

// set sets an organization's certificate by a name.
func (s *shop) set(organization uuid.UUID, name string) clientcertificate.Certificate {
	s.Helper()
	pair := s.authority.Issue(name, nil)
	set := must.Get(s.commands.SetClientCertificate(s.Context(), command.Caller{Actor: "operator:ann"},
		command.SetClientCertificate{Organization: organization, Certificate: pair.Chain, PrivateKey: pair.Key}))(s)
	return set.Value.Certificate
}

func (s *shop) remove(organization uuid.UUID) {
	s.Helper()
	must.Get(s.commands.RemoveClientCertificate(s.Context(), command.Caller{},
		command.RemoveClientCertificate{Organization: organization}))(s)
}

// process is one that sends.
type process struct {
	*shop
	facts  *Follower
	sender *webhook.Sender
}

// process makes one, with keys of its own in memory, and follows the events if requested.
func (s *shop) process(follows bool) *process {
	s.Helper()
	vault := must.Get(sealing.NewVault(s.keys, make([]byte, 32)))(s)
	pool := x509.NewCertPool()
	pool.AddCert(s.receiver.Certificate())
	connect := func(shown *tls.Certificate) *http.Transport {
		transport := egress.NewTransport(egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			egress.Options{RootCAs: pool, Certificate: shown})
		s.Cleanup(transport.CloseIdleConnections)
		return transport
	}
	p := &process{
		shop: s, sender: webhook.NewSender(connect(nil), webhook.Options{}),
		facts: &Follower{
			Store:   s.commands.Store,
			Vault:   vault,
			Now:     time.Now,
			Connect: connect,
			Log:     slog.New(slog.DiscardHandler),
		},
	}
	if follows {
		running, end := context.WithCancel(s.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.facts.Run(running) }()
		s.Cleanup(func() { end(); <-done })
		must.Eventually(p, "it follows", func() bool { return p.follows() })
	}
	return p
}

// follows reports whether certificates are kept in memory.
func (p *process) follows() bool {
	p.facts.init()
	p.facts.certificates.mu.Lock()
	defer p.facts.certificates.mu.Unlock()
	return p.facts.certificates.following
}

// send sends a request of an organization.
func (p *process) send(organization uuid.UUID) webhook.Result {
	p.Helper()
	via, err := p.facts.Connections(p.Context(), organization)
	assert.OK(p, err)
	return p.sender.Send(p.Context(), webhook.Request{
		URL:     p.receiver.URL,
		Secrets: []webhook.Secret{p.secret},
		ID:      "d",
		Body:    []byte("{}"),
		Via:     via,
	})
}

func (p *process) sends(organization uuid.UUID) {
	p.Helper()
	result := p.send(organization)
	assert.True(p, result.OK(), "sent with %+v", result)
}

func asking(*mtlstest.Authority) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
}

// TestHostileCertificatesStayApart: organizations that post to one host, over connections that stay open and over
// sessions that are resumed, are each shown by their own certificate, and those without one by none.
func TestHostileCertificatesStayApart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		version uint16
		answer  http.HandlerFunc
		follows bool
	}{
		"open connections":            {tls.VersionTLS13, nil, true},
		"open connections of TLS 1.2": {tls.VersionTLS12, nil, true},
		"resumed sessions":            {tls.VersionTLS13, hangUp, true},
		"resumed sessions of TLS 1.2": {tls.VersionTLS12, hangUp, true},
		"nothing is followed yet":     {tls.VersionTLS13, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, func(a *mtlstest.Authority) *tls.Config {
				config := asking(a)
				config.MaxVersion = tt.version
				return config
			}, tt.answer)
			p := s.process(tt.follows)
			ours, theirs, without := s.organization(), s.organization(), s.organization()
			s.set(ours, "ours")
			s.set(theirs, "theirs")
			for range 4 {
				p.sends(ours)
				p.sends(without)
				p.sends(theirs)
				p.sends(without)
			}
			want := slices.Repeat([]string{"ours", "", "theirs", ""}, 4)
			assert.Slices(t, s.receiver.Shown(), want, "shown")
			if opened := s.receiver.Connections.Load(); tt.answer == nil && tt.follows && opened >= int64(len(want)) {
				t.Errorf("%d connections: none was used again, and the test shows nothing", opened)
			}
		})
	}
}

func hangUp(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }

// A request in flight ends as it began; its connection closes after it.
func TestCertificates_requestOutlivesReplacement(t *testing.T) {
	t.Parallel()
	arrived, answered := make(chan struct{}), make(chan struct{})
	var requests atomic.Int64
	s := openShop(t, asking, func(http.ResponseWriter, *http.Request) {
		if requests.Add(1) == 1 {
			close(arrived)
			<-answered
		}
	})
	p, ours := s.process(true), s.organization()
	before := s.set(ours, "before")
	done := make(chan struct{})
	go func() { defer close(done); p.sends(ours) }()
	<-arrived
	s.set(ours, "after")
	assert.Is(t, assert.Err(s.keys.Find(t.Context(), before.ID)), sealing.ErrShredded,
		"the data key of the first is still there")
	must.Eventually(s, "the next is shown", func() bool {
		p.sends(ours)
		shown := s.receiver.Shown()
		return shown[len(shown)-1] == "after"
	})
	close(answered)
	<-done
	must.Eventually(s, "the connection of the first is closed", func() bool { return s.receiver.Open() == 1 })
	s.remove(ours)
	must.Eventually(s, "none is shown", func() bool {
		p.sends(ours)
		shown := s.receiver.Shown()
		return shown[len(shown)-1] == ""
	})
	must.Eventually(s, "the connections of the second are closed", func() bool { return s.receiver.Open() == 1 })
}

// cutOff is a store to which subscriptions break, and are not made again.
type cutOff struct {
	eventstore.Store

	cut chan struct{}
}

func (c *cutOff) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		subscribed, end := context.WithCancel(ctx)
		defer end()
		go func() {
			select {
			case <-c.cut:
				end()
			case <-subscribed.Done():
			}
		}()
		for m, err := range c.Store.Subscribe(subscribed, after, filter) {
			if !yield(m, err) {
				return
			}
		}
		yield(eventstore.Message{}, eventstore.ErrUnavailable)
	}
}

// While changes can't be followed, nothing that may have changed is shown.
func TestCertificates_subscriptionIsCutOff(t *testing.T) {
	t.Parallel()
	s := openShop(t, asking, nil)
	store := &cutOff{Store: s.commands.Store, cut: make(chan struct{})}
	s.commands.Store = store
	p, ours := s.process(true), s.organization()
	s.set(ours, "before")
	p.sends(ours)
	close(store.cut)
	must.Eventually(s, "it knows that it does not follow", func() bool { return !p.follows() })
	s.set(ours, "after")
	p.sends(ours)
	assert.Slices(t, s.receiver.Shown(), []string{"before", "after"}, "shown")
}

// TestHostileLossOfAKey: without its key a certificate is not shown, nothing is sent without it, and the error
// names it; others go on. The same certificate, set again, repairs it.
func TestHostileLossOfAKey(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*shop, clientcertificate.Certificate) error{
		"shredded": func(s *shop, c clientcertificate.Certificate) error { return s.keys.Delete(s.Context(), c.ID) },
		"damaged": func(s *shop, c clientcertificate.Certificate) error {
			s.keys.kept.Store(c.ID, []byte("damaged"))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, asking, nil)
			ours, theirs := s.organization(), s.organization()
			pair := s.authority.Issue("ours", nil)
			set := func() command.Result[clientcertificate.State] {
				set := must.Get(s.commands.SetClientCertificate(t.Context(), command.Caller{},
					command.SetClientCertificate{Organization: ours, Certificate: pair.Chain, PrivateKey: pair.Key}))(t)
				return set
			}
			first := set()
			again := set()
			assert.True(t, again.Revision == first.Revision && !again.Created, "set again, it is another one")
			s.set(theirs, "theirs")
			must.OK(t, lose(s, first.Value.Certificate))
			s.commands.Vault, _ = sealing.NewVault(s.keys, make([]byte, 32)) // of a process that has it not in memory
			p := s.process(true)
			assert.Is(t, assert.Err(p.facts.Connections(t.Context(), ours)), ErrCertificateLost, "without its key")
			if reached := (Prober{Facts: p.facts, Sender: p.sender}).Probe(t.Context(), ours,
				s.receiver.URL); reached.Reachable || reached.ErrorMessage != certificateLostMessage {
				t.Errorf("the probe found %+v", reached)
			}
			p.sends(theirs)
			assert.True(t, set().Value.Certificate.ID != first.Value.Certificate.ID, "it was not set again")
			must.Eventually(s, "it is shown", func() bool {
				via, err := p.facts.Connections(t.Context(), ours)
				return err == nil && via != nil
			})
			p.sends(ours)
			assert.Slices(t, s.receiver.Shown(), []string{"theirs", "ours"}, "shown")
		})
	}
}

// Ten times as many organizations as are kept: the least recently used connections are closed.
func TestHostileNumberOfCertificates(t *testing.T) {
	t.Parallel()
	c := newCache(func(context.Context, uuid.UUID) (*connections, error) {
		return &connections{Transport: &http.Transport{}}, nil
	}, (*connections).retire)
	next := func() *connections {
		kept := must.Get(c.get(t.Context(), uuid.New()))(t)
		return kept
	}
	c.follow(true)
	first := next()
	for range 10 * maxCached {
		next()
	}
	latest := next()
	assert.True(t, c.values.Len() == maxCached && first.retired.Load() && !latest.retired.Load(),
		"%d kept", c.values.Len())
	c.follow(false)
	assert.True(t, latest.retired.Load() && c.values.Len() <= 0, "at the end something is kept")
	assert.True(t, next().retired.Load() && c.values.Len() <= 0, "while nothing is followed, something is kept")
}
