package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/command"
	"carillon/command/delivery/autodisable"
	"carillon/command/delivery/facts"
	"carillon/command/delivery/sending"
	"carillon/command/egress"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/projections"
)

// Connections to endpoints that stay open between requests. They are given up before receivers usually do, so that a
// request rarely meets one that is being closed: Node.js and Apache wait 5 s, most proxies a minute or more.
const (
	maxIdle     = 4096
	maxIdleTime = 4 * time.Second
)

// webhooks sends deliveries, and knows what decides over them.
type webhooks struct {
	*part            // the worker
	following  *part // what the worker goes by until its last request has ended
	readModels *readModels
	policy     egress.Policy  // of addresses that may be reached
	roots      *x509.CertPool // that receivers' certificates are trusted by; nil means the system's
	vault      *sealing.Vault
	facts      *facts.Follower
	holdings   adapters.Holdings
	relay      *adapters.Relay
	sender     *webhook.Sender
	tester     sending.Tester
	queue      *adapters.DeliveryQueue
	deliverers *adapters.Deliverers
	deliverer  *sending.Deliverer
	expiries   *expiries
}

func newWebhooks(m *readModels) (*webhooks, error) {
	s := m.stores
	w := &webhooks{
		part:       s.newPart(),
		following:  s.newPart(),
		readModels: m,
		vault:      sealing.NewVaultOn(s.keys, s.keys.Ring),
		relay:      &adapters.Relay{Pool: s.pool, Locks: s.locks, Refused: s.refused},
		queue:      adapters.NewDeliveryQueue(m.runner, s.clock.Now),
		deliverers: &adapters.Deliverers{Locks: s.locks},
		expiries:   &expiries{queries: m.queries, log: s.log, now: time.Now},
	}
	policy, options, err := DeliveryEgress(&s.cfg)
	if err != nil {
		return nil, err
	}
	options.Files = s.files
	w.policy, w.roots = policy, options.RootCAs
	w.facts = w.followed(options)
	w.sender = webhook.NewSender(egress.NewTransport(policy, options), webhook.Options{
		Version: Version,
		Timeout: s.cfg.DeliveryTimeout,
		Relay:   w.relay.For,
	})
	w.tester = sending.Tester{
		Facts:  w.facts,
		Sender: w.sender,
		Now:    s.clock.Now,
	}
	w.holdings = adapters.Holdings{
		Runner:  m.runner,
		Queries: m.queries,
		Vault:   w.vault,
	}
	w.connectWorker()
	s.Metrics.MustRegister(scraped(w.expiries.read))
	return w, nil
}

// connectWorker makes the worker that delivers.
func (w *webhooks) connectWorker() {
	s := w.readModels.stores
	w.deliverer = &sending.Deliverer{
		Store:    w.readModels.runner.Store,
		Queue:    w.queue,
		Vault:    w.vault,
		Slots:    adapters.Hosts{Pool: s.pool},
		Sender:   w.sender,
		Facts:    w.facts,
		Settings: w.deliverySettings(),
		Policy: sending.Policy{
			Timeout:       w.cfg.DeliveryTimeout,
			RetrySchedule: w.cfg.DeliveryRetrySchedule,
		},
		Now:         s.clock.Now,
		Jitter:      func() float64 { return 2*rand.Float64() - 1 }, //nolint:gosec // spreads load, protects nothing
		Log:         w.log,
		Count:       w.metrics(),
		Failed:      func(at eventstore.Position) { w.readModels.progress.Hurry(autodisable.Name, at) },
		SearchEvery: cmp.Or(w.cfg.SearchEvery, sending.DefaultSearchEvery),
		Searches: func(begins time.Time) bool {
			worker, _ := w.queue.Worker()
			return w.deliverers.Searches(worker, begins)
		},
	}
	w.deliverers.LeasedUntil = w.deliverer.LeasedUntil
	if w.cfg.Is(config.RoleDeliver) {
		w.deliverers.Here, w.facts.Listener = w.deliverer, w.deliverer
		w.facts.Dispatches, w.facts.Standing = !w.cfg.Is(config.RoleDispatch), w.holdings.Standing
	}
	if w.tracing != nil {
		w.deliverer.Tracer = w.tracing
	}
}

// followed makes what decides over deliveries. Receivers are shown the certificates of organizations under the same
// guard as everything that goes out.
func (w *webhooks) followed(options egress.Options) *facts.Follower {
	options.MaxIdleConns = options.MaxIdleConnsPerHost // those that show one certificate
	return &facts.Follower{
		Store: w.readModels.runner.Store,
		Vault: w.vault,
		Now:   w.readModels.stores.clock.Now,
		Log:   w.log,
		Connect: func(shown *tls.Certificate) *http.Transport {
			options := options
			options.Certificate = shown
			return egress.NewTransport(w.policy, options)
		},
	}
}

// start runs the worker, if the process delivers, and lets other processes say which destinations rest, how much room
// their deliverers have, and what is new for programs that listen.
func (w *webhooks) start() {
	w.following.keep("facts of deliveries", w.facts.Run)
	if w.cfg.Is(config.RoleDeliver) || w.cfg.Is(config.RoleAPI) {
		w.following.keep("relay", w.relay.Follow)
	}
	if w.cfg.Is(config.RoleDeliver) || w.cfg.Is(config.RoleDispatch) || w.cfg.Is(config.RoleAPI) {
		w.following.keep("capacities", w.deliverers.Listen)
	}
	if w.cfg.Is(config.RoleDeliver) {
		w.queue.OnRest(w.deliverer.Wake)
		w.following.keep("worker lock", func(ctx context.Context) { w.queue.StayAlive(ctx, w.log) })
		w.following.keep("due deliveries", func(ctx context.Context) {
			projections.ListenDue(ctx, w.readModels.stores.locks, w.deliverer.Due)
		})
		w.run("deliverer", w.deliverer.Run)
		w.keep("expiries", w.expiries.watch)
	}
}

// await waits until consumers have applied the event at a position, the deliverers of all processes among them.
func (w *webhooks) await(ctx context.Context, to eventstore.Position, consumers ...string) bool {
	for _, name := range consumers {
		if name == facts.Name && !w.deliverers.Applied(ctx, to) ||
			name != facts.Name && !w.readModels.progress.Await(ctx, to, name) {
			return false
		}
	}
	return true
}

// DeliveryEgress returns which addresses webhooks may reach, and which authorities they trust.
func DeliveryEgress(cfg *config.Config) (policy egress.Policy, options egress.Options, err error) {
	policy = egress.Policy{Allow: cfg.DeliveryAllowCIDRs, Deny: cfg.EgressDenyCIDRs}
	// Many destinations may share a host: if all requests in flight go there, each connection that is used again at once
	// is kept. Opening another costs several times what a request does.
	inFlight, idle := connectionsFor(filesAllowed())
	options = egress.Options{
		MaxIdleConnsPerHost: inFlight,
		MaxIdleConns:        idle,
		IdleConnTimeout:     maxIdleTime,
		From:                cfg.EgressAddr,
	}
	if cfg.Dev {
		authority, err := dev.EnsureAuthority(cfg.DataDir)
		if err != nil {
			return policy, options, err
		}
		policy.Allow = append(slices.Clone(policy.Allow), dev.Loopback...)
		options.RootCAs = authority.Trust()
	}
	options.RootCAs, err = cfg.EgressRoots(options.RootCAs)
	return policy, options, err
}

// metrics registers the metrics of delivery and returns the function that counts an attempt.
func (w *webhooks) metrics() func(sending.Attempt) {
	attempts := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "carillon_delivery_attempt_seconds", Help: "Delivery attempts by outcome and trigger.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"outcome", "trigger"})
	queued := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_delivery_queued", Help: "Deliveries that wait in this process.",
	}, func() float64 { n, _ := w.deliverer.Load(); return float64(n) })
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_delivery_in_flight", Help: "Requests of this process in flight.",
	}, func() float64 { _, n := w.deliverer.Load(); return float64(n) })
	w.Metrics.MustRegister(attempts, queued, running)
	return func(at sending.Attempt) {
		outcome := string(at.FailureReason)
		if outcome == "" {
			outcome = "succeeded"
		}
		attempts.WithLabelValues(outcome, string(at.Trigger)).Observe(at.Duration.Seconds())
	}
}

// operatorWebhookPause is the time between two tries to set the address of the operators.
const operatorWebhookPause = 10 * time.Second

// setOperatorWebhook sets the address that gets the notices of all organizations, once after the start. Several
// processes may do it at the same time.
func (m *managers) setOperatorWebhook(ctx context.Context) error {
	in := command.SetOperatorWebhook{URL: m.cfg.OperatorWebhook.Reveal()}
	if in.URL != "" {
		var err error
		if in.Secret, err = webhook.ParseSecret(m.cfg.OperatorWebhookSecret.Reveal()); err != nil {
			return err
		}
	}
	for {
		err := m.commands.SetOperatorWebhook(ctx, command.Caller{Actor: "carillon", RequestID: uuid.New()}, in)
		if refusal, is := errors.AsType[*command.Refusal](err); is {
			m.log.Error("CARILLON_OPERATOR_WEBHOOK can't be used: correct it and start again",
				"error", egress.HideAddresses(refusal))
			return nil
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		m.log.Warn("CARILLON_OPERATOR_WEBHOOK could not be set yet", "error", egress.HideAddresses(err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(operatorWebhookPause):
		}
	}
}
