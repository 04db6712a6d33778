//go:build nightly && linux

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi/apitest"
)

// TestListenWhereNoServerReaches runs listeners in a network of their own, from which one address leads to the server
// and to which no address leads. The first one is killed, and the second removes what it left.
func TestListenWhereNoServerReaches(t *testing.T) {
	s := openWith(t, func(*config.Config) {})
	network := newNetwork(t, s.app.APIAddr().String())
	var said strings.Builder
	receiver := network.command(s)
	receiver.Stderr = &said
	network.run(receiver)
	if err := receiver.Wait(); err == nil || !strings.Contains(said.String(), "can't reach this program") {
		t.Fatalf("with a port in its network: %v %s", err, &said)
	}
	first := network.listen(s)
	if ports := network.ports(); ports != 1 {
		t.Errorf("%d ports are open in the network, want that of the server alone", ports)
	}
	subject := uuid.NewString()
	s.ok("trigger", "news.item.added", "--subject", subject)
	if got := first.next(subject); !got.Verified || got.Answered != 204 {
		t.Errorf("heard %+v", got)
	}
	first.stop()
	left := s.destinations()
	if strings.Count(left, `"carillon listen"`) != 1 {
		t.Fatalf("a killed listener left %s", left)
	}
	second := network.listen(s)
	if now := s.destinations(); strings.Count(now, `"carillon listen"`) != 1 || now == left {
		t.Errorf("while the second listens: %s", now)
	}
	subject = uuid.NewString()
	s.ok("trigger", "news.item.added", "--subject", subject)
	if got := second.next(subject); !got.Verified {
		t.Errorf("heard %+v", got)
	}
}

// ownNetwork is a network namespace with nothing but a loopback device. One port there leads to the server.
type ownNetwork struct {
	*testing.T

	server string         // its address inside
	thread int            // which is inside
	start  chan *exec.Cmd // starts a program inside
	ended  chan error     // answers start
}

// newNetwork makes one on a thread that ends with the test.
func newNetwork(t *testing.T, leadsTo string) *ownNetwork {
	t.Helper()
	n := &ownNetwork{T: t, start: make(chan *exec.Cmd), ended: make(chan error)}
	made := make(chan error)
	var inside net.Listener
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			err = exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").Run()
		}
		if err == nil {
			inside, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		}
		n.thread = syscall.Gettid()
		made <- err
		for command := range n.start {
			n.ended <- command.Start()
		}
	}()
	t.Cleanup(func() { close(n.start) })
	if err := <-made; err != nil {
		t.Skipf("no network namespace can be made here (it takes root, and ip): %v", err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	n.server = inside.Addr().String()
	go func() {
		for {
			conn, err := inside.Accept()
			if err != nil {
				return
			}
			go passOn(t.Context(), conn, leadsTo)
		}
	}()
	return n
}

// passOn connects a connection with an address outside.
func passOn(ctx context.Context, inside net.Conn, to string) {
	defer func() { _ = inside.Close() }()
	outside, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = outside.Close() }()
	go func() {
		_, _ = io.Copy(outside, inside)
		_ = outside.Close()
	}()
	_, _ = io.Copy(inside, outside)
}

// command returns carillon listen, for run.
func (n *ownNetwork) command(s shell, args ...string) *exec.Cmd {
	args = append([]string{"listen", "--json", "--data-dir", s.server[1], "--http-addr", n.server}, args...)
	command := exec.CommandContext(n.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), actAsCarillon+"=1")
	return command
}

func (n *ownNetwork) run(command *exec.Cmd) {
	n.Helper()
	n.start <- command
	if err := <-n.ended; err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = command.Process.Kill() })
}

// listen takes webhooks from a stream inside. stop kills the listener.
func (n *ownNetwork) listen(s shell) listening {
	n.Helper()
	command := n.command(s, "--stream")
	out := apitest.Must(command.StdoutPipe())(n)
	notes := apitest.Must(command.StderrPipe())(n)
	n.run(command)
	readUntil(notes, "Ctrl-C")
	return listening{shell: s, lines: bufio.NewScanner(out), stop: func() (int, string) {
		_ = command.Process.Kill()
		_ = command.Wait()
		return command.ProcessState.ExitCode(), ""
	}}
}

// ports counts the ports inside at which a program listens.
func (n *ownNetwork) ports() (open int) {
	n.Helper()
	const listens = "0A"
	for _, file := range []string{"tcp", "tcp6"} {
		table := apitest.Must(os.ReadFile("/proc/self/task/" + strconv.Itoa(n.thread) + "/net/" + file))(n)
		for line := range strings.Lines(string(table)) {
			if fields := strings.Fields(line); len(fields) > 3 && fields[3] == listens {
				open++
			}
		}
	}
	return open
}
