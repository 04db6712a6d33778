package app_test

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
	"carillon/cmd/internal/suite"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
)

// childRole makes this test binary one of the processes of the torture.
const childRole = "CARILLON_TORTURE_CHILD"

// notUp is how a child ends that does not come up, as when Postgres is away just then.
const notUp = 75

var errNotUp = errors.New("did not come up")

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(childRole) {
	case "server":
		err = serverChild()
	case "node":
		err = nodeChild()
	default:
		os.Exit(suite.Main(m))
	}
	switch {
	case errors.Is(err, errNotUp):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(notUp)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serverChild() error {
	app.LimitMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := config.Config{
		HTTPAddr:        "127.0.0.1:0",
		AdminAddr:       "127.0.0.1:0",
		DataDir:         os.Getenv("CHILD_DATA"),
		Dev:             true,
		Roles:           []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver},
		EventStoreURL:   config.Address(os.Getenv("CHILD_STORE")),
		DatabaseURL:     config.Address(os.Getenv("CHILD_DATABASE")),
		DeliveryTimeout: 20 * time.Second,
		DeliveryRetrySchedule: []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
			5 * time.Second, 10 * time.Second, 20 * time.Second, 20 * time.Second, 20 * time.Second},
		AutoDisableAfter:      1_000_000,
		AutoDisableMinStreak:  time.Hour,
		OperatorWebhook:       config.Address(os.Getenv("CHILD_OPERATORS")),
		OperatorWebhookSecret: operatorSecret,
	}
	var err error
	if cfg.HTTPListener, err = inherited(0); err != nil {
		return err
	}
	if cfg.AdminListener, err = inherited(1); err != nil {
		return err
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
			return err
		}
		cfg.DeliveryRetrySchedule = []time.Duration{pause, pause, pause}
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

func nodeChild() error {
	strict := nodetest.Strict()
	if strict != nil { // now and then an answer is lost, or the leader
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
func handOver(t *testing.T, n int) (addresses []string, files []*os.File) {
	t.Helper()
	for range n {
		listener := suite.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		file := suite.Must(listener.(*net.TCPListener).File())(t)
		_ = listener.Close() // the file stays open
		t.Cleanup(func() { _ = file.Close() })
		addresses, files = append(addresses, listener.Addr().String()), append(files, file)
	}
	return addresses, files
}

// startNodeChild starts an event store in a separate process, and returns its URL.
func startNodeChild(t *testing.T, dir string) (node *child, url string) {
	t.Helper()
	addresses, files := handOver(t, 1)
	node = &child{t: t, listeners: files, env: []string{childRole + "=node", "CHILD_DATA=" + filepath.Join(dir, "store")}}
	node.start()
	t.Cleanup(func() { node.kill() })
	return node, "esdb://" + addresses[0] + "?tls=false"
}

// startServerChild starts a server in a separate process, and returns the URLs of its APIs. An empty store is embedded.
func startServerChild(t *testing.T, data, store, database string, env ...string) (server *child, api, admin string) {
	t.Helper()
	addresses, files := handOver(t, 2)
	server = &child{
		t:         t,
		listeners: files,
		env:       append(env, childRole+"=server", "CHILD_DATA="+data, "CHILD_STORE="+store, "CHILD_DATABASE="+database),
	}
	server.start()
	t.Cleanup(func() { server.kill() })
	return server, "http://" + addresses[0], "http://" + addresses[1]
}

// child is a process that is killed and started again. If it does not come up it is started again, as a supervisor
// would; once it is up, it must not end by itself.
type child struct {
	t         *testing.T
	env       []string
	listeners []*os.File // which the process takes over each time
	kill      func()

	mu      sync.Mutex
	process *os.Process
}

// signal reaches the process as it runs now.
func (c *child) signal(s os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		_ = c.process.Signal(s)
	}
}

// pid is that of the process as it runs now.
func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}

func (c *child) start() {
	killed, ended := make(chan struct{}), make(chan struct{})
	c.kill = sync.OnceFunc(func() {
		close(killed)
		<-ended
	})
	go func() {
		defer close(ended)
		for c.run(killed) {
		}
	}()
}

// run runs the process until it is killed or ends, and reports whether it has to be started again.
func (c *child) run(killed <-chan struct{}) bool {
	cmd := exec.Command(os.Args[0]) //nolint:gosec,noctx // this very binary; it is killed below
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stderr = c.t.Output()
	cmd.ExtraFiles = c.listeners
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return false
	}
	c.mu.Lock()
	c.process = cmd.Process
	c.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-killed:
		_ = cmd.Process.Kill()
		<-ended
		return false
	case err := <-ended:
		if cmd.ProcessState.ExitCode() != notUp {
			c.t.Errorf("a process ended by itself: %v", err)
			return false
		}
		return true
	}
}
