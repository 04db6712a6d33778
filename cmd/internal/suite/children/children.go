// Package children runs servers and event stores in processes of their own, for tests that kill, stop and measure them.
package children

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/must"
)

const (
	// role makes a test binary one of the processes.
	role = "CARILLON_TEST_CHILD"
	// notUp is how a child ends that does not come up, as when Postgres is away just then.
	notUp = 75

	// OperatorSecret signs what the operators' address of a server gets.
	OperatorSecret = "whsec_b25lIHNlY3JldCBvZiB0aGUgb3BlcmF0b3JzLCBsb25nIQ==" //nolint:gosec // of tests
)

var errNotUp = errors.New("did not come up")

// Main ends a process that is a child; TestMain calls it first.
func Main() {
	var err error
	switch os.Getenv(role) {
	case "server":
		err = serveAll()
	case "node":
		err = serveNode()
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	switch {
	case errors.Is(err, errNotUp):
		os.Exit(notUp)
	case err != nil:
		os.Exit(1)
	}
	os.Exit(0)
}

// settings are those of a server, by the variables of its process.
func settings() (cfg config.Config, err error) {
	cfg = config.Config{
		HTTPAddr:        "127.0.0.1:0",
		AdminAddr:       "127.0.0.1:0",
		DataDir:         os.Getenv("CHILD_DATA"),
		Dev:             true,
		Roles:           []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver},
		EventStoreURL:   config.Address(os.Getenv("CHILD_STORE")),
		DatabaseURL:     config.Address(os.Getenv("CHILD_DATABASE")),
		DeliveryTimeout: 30 * time.Second,
		DeliveryRetrySchedule: []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
			5 * time.Second, 10 * time.Second, 20 * time.Second, 20 * time.Second, 20 * time.Second},
		AutoDisableAfter:      1_000_000,
		AutoDisableMinStreak:  time.Hour,
		OperatorWebhook:       config.Address(os.Getenv("CHILD_OPERATORS")),
		OperatorWebhookSecret: OperatorSecret,
		NoHostDelay:           os.Getenv("CHILD_NO_HOST_DELAY") != "",
	}
	if cfg.HTTPListener, err = inherited(0); err != nil {
		return cfg, err
	}
	if cfg.AdminListener, err = inherited(1); err != nil {
		return cfg, err
	}
	if roles := os.Getenv("CHILD_ROLES"); roles != "" {
		cfg.Roles = strings.Split(roles, ",")
	}
	if os.Getenv("CHILD_COLLECTS") != "" {
		cfg.Roles = append(cfg.Roles, config.RoleCollect)
	}
	if wait := os.Getenv("CHILD_RETRY"); wait != "" {
		pause, err := time.ParseDuration(wait)
		if err != nil {
			return cfg, err
		}
		cfg.DeliveryRetrySchedule = []time.Duration{pause, pause, pause}
	}
	return cfg, nil
}

// serveAll does what serve does.
func serveAll() error {
	app.LimitMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := settings()
	if err != nil {
		return err
	}
	a, err := app.Open(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotUp, err)
	}
	defer a.Close()
	go func() {
		for ctx.Err() == nil { // the event store may be away just now
			if _, err := a.DevelopmentKey(ctx); err == nil {
				return
			}
		}
	}()
	return a.Run(ctx)
}

// serveNode serves an event store.
func serveNode() error {
	strict := nodetest.Strict()
	if strict != nil && !strict.Costly { // now and then an answer is lost, or the leader
		go func() {
			for tick := range time.Tick(2 * time.Second) {
				strict.LoseAnswers(1)
				if tick.Second()%20 < 2 {
					strict.LoseLeader(5 * time.Second)
				}
			}
		}()
	}
	n, err := node.Open(node.Config{Dir: os.Getenv("CHILD_DATA"), Quirks: strict})
	if err != nil {
		return fmt.Errorf("%w: %w", errNotUp, err)
	}
	listener, err := inherited(0)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotUp, err)
	}
	return n.Serve(listener)
}

// inherited returns a listener that the parent has handed over.
func inherited(n uintptr) (net.Listener, error) {
	const first = 3 // after standard input, output and error
	file := os.NewFile(first+n, "listener")
	defer func() { _ = file.Close() }()
	return net.FileListener(file)
}

// handOver listens at addresses for a process to be: connections wait while it is away.
func handOver(t testing.TB, n int) (addresses []string, files []*os.File) {
	t.Helper()
	for range n {
		listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		file := must.Get(listener.(*net.TCPListener).File())(t) //nolint:forcetypeassert,errcheck // of TCP
		_ = listener.Close()                                    // the file stays open
		t.Cleanup(func() { _ = file.Close() })
		addresses, files = append(addresses, listener.Addr().String()), append(files, file)
	}
	return addresses, files
}

// StartNode starts an event store, and returns its URL.
func StartNode(t testing.TB, dir string, env ...string) (c *Child, url string) {
	t.Helper()
	addresses, files := handOver(t, 1)
	c = start(t, files, append(env, role+"=node", "CHILD_DATA="+filepath.Join(dir, "store"))...)
	return c, "esdb://" + addresses[0] + "?tls=false"
}

// StartServer starts a server, and returns the URLs of its APIs. An empty store is embedded, an empty database private.
func StartServer(t testing.TB, data, store, database string, env ...string) (c *Child, api, admin string) {
	t.Helper()
	addresses, files := handOver(t, 2)
	c = start(t, files, append([]string{role + "=server", "CHILD_DATA=" + data, "CHILD_STORE=" + store,
		"CHILD_DATABASE=" + database}, env...)...)
	return c, "http://" + addresses[0], "http://" + addresses[1]
}

func start(t testing.TB, listeners []*os.File, env ...string) *Child {
	t.Helper()
	c := &Child{t: t, Env: env, listeners: listeners}
	c.Start()
	t.Cleanup(func() { c.Kill() })
	return c
}

// Child is a process that is killed and started again. If it does not come up it is started again, as a supervisor
// would; once it is up, it must not end by itself.
type Child struct {
	Env []string

	t         testing.TB
	listeners []*os.File // which the process takes over each time
	end       func(os.Signal) *os.ProcessState

	mu      sync.Mutex
	process *os.Process
}

// Signal reaches the process as it runs now.
func (c *Child) Signal(s os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		_ = c.process.Signal(s)
	}
}

// PID is that of the process as it runs now.
func (c *Child) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}

// Kill kills the process.
func (c *Child) Kill() { c.end(syscall.SIGKILL) }

// End ends the process by a signal, if it has not ended, and returns what is known of it afterwards.
func (c *Child) End(by os.Signal) *os.ProcessState { return c.end(by) }

// Start starts the process, again if it has ended.
func (c *Child) Start() {
	ending, ended := make(chan os.Signal, 1), make(chan *os.ProcessState, 1)
	var once sync.Once
	var state *os.ProcessState
	c.end = func(by os.Signal) *os.ProcessState {
		once.Do(func() {
			ending <- by
			state = <-ended
		})
		return state
	}
	go func() {
		for {
			if state, again := c.run(ending); !again {
				ended <- state
				return
			}
		}
	}()
}

// run runs the process until it is ended or ends, and reports whether it has to be started again.
func (c *Child) run(ending <-chan os.Signal) (state *os.ProcessState, again bool) {
	cmd := exec.Command(os.Args[0]) //nolint:gosec,noctx // this very binary; it is killed below
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stderr = c.t.Output()
	cmd.ExtraFiles = c.listeners
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return nil, false
	}
	c.mu.Lock()
	c.process = cmd.Process
	c.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case by := <-ending:
		_ = cmd.Process.Signal(by)
		if err := <-ended; err != nil && by != syscall.SIGKILL {
			c.t.Errorf("a process ended by %s with %v", by, err)
		}
		return cmd.ProcessState, false
	case err := <-ended:
		if cmd.ProcessState.ExitCode() != notUp {
			c.t.Errorf("a process ended by itself: %v", err)
			return cmd.ProcessState, false
		}
		return nil, true
	}
}
