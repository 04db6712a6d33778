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
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
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
	case "naps":
		napsChild()
	case "node":
		err = nodeChild()
	default:
		os.Exit(m.Run())
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
	memory := app.TuneMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := config.Config{
		HTTPAddr: os.Getenv("CHILD_API"), AdminAddr: os.Getenv("CHILD_ADMIN"), DataDir: os.Getenv("CHILD_DATA"), Dev: true,
		Roles:         []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver},
		EventStoreURL: config.Address(os.Getenv("CHILD_STORE")), DatabaseURL: config.Address(os.Getenv("CHILD_DATABASE")),
		DeliveryTimeout:       20 * time.Second,
		DeliveryRetrySchedule: []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 20 * time.Second, 20 * time.Second},
		AutoDisableAfter:      1_000_000, AutoDisableMinStreak: time.Hour,
	}
	if err := platformsOf(&cfg.Platforms); err != nil {
		return err
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
	a.Memory = memory
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
	n, err := node.Open(node.Config{Dir: os.Getenv("CHILD_DATA"), Strict: strict})
	if err != nil {
		return fmt.Errorf("%w: %w", errNotUp, err)
	}
	listener, err := net.Listen("tcp", os.Getenv("CHILD_API"))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotUp, err)
	}
	return n.Serve(listener)
}

// child is a process that is killed and started again. Where it does not come up it is started anew, as a supervisor
// would; once it is up, it must not end by itself.
type child struct {
	t    *testing.T
	env  []string
	kill func()

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

// run runs the process until it is killed or ends, and reports whether it has to be started anew.
func (c *child) run(killed <-chan struct{}) bool {
	cmd := exec.Command(os.Args[0]) //nolint:gosec,noctx // this very binary; it is killed below
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stderr = c.t.Output()
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
