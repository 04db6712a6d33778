package maintenance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"syscall"

	"carillon/cmd/internal/config"
	"carillon/eventstore/node"
)

// Open finds the node of a directory: the one that a process runs, or else the directory by itself.
func Open(ctx context.Context, dir string, log *slog.Logger) (Node, error) {
	running, _, err := connect(ctx, dir)
	switch {
	case err != nil:
		return nil, err
	case running != nil:
		return running, nil
	case !Holds(dir):
		return nil, fmt.Errorf("%s: %w", dir, ErrNoStore)
	}
	return closed{config: node.Config{Dir: dir, Logger: log}}, nil
}

// Protocol is the unix socket on which a running node of a directory speaks the EventStoreDB protocol. running is false
// if no process runs one; socket is empty if it is to be reached by its address only.
func Protocol(ctx context.Context, dir string) (socket string, running bool, err error) {
	client, said, err := connect(ctx, dir)
	return said.Socket, client != nil, err
}

// Holds reports whether a directory holds an event store, or what is left of one: opening it says what is missing.
func Holds(dir string) bool {
	for _, pattern := range []string{"marker.manifest.*", "MANIFEST-*", "*.sst", "*.log"} {
		if found, err := filepath.Glob(filepath.Join(escape(dir), pattern)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// Repair lists what a directory has lost at the end of its log, and with acceptLoss makes it open again without it.
func Repair(ctx context.Context, dir string, acceptLoss bool, log *slog.Logger) (node.Repaired, error) {
	running, _, err := connect(ctx, dir)
	switch {
	case err != nil:
		return node.Repaired{}, err
	case running != nil:
		return node.Repaired{}, fmt.Errorf("%s: a server runs this event store, so it opened in order: nothing to repair",
			dir)
	case !Holds(dir):
		return node.Repaired{}, fmt.Errorf("%s: %w", dir, ErrNoStore)
	}
	if err := config.CheckWriter(dir); err != nil {
		return node.Repaired{}, err
	}
	return node.Repair(node.Config{Dir: dir, Logger: log}, acceptLoss)
}

// escape makes a path match itself.
func escape(path string) string {
	var b []byte
	for i := range len(path) {
		if c := path[i]; c == '*' || c == '?' || c == '[' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, path[i])
	}
	return string(b)
}

// connect returns nil if no process answers.
func connect(ctx context.Context, dir string) (*client, about, error) {
	socket, err := socketOf(dir)
	if err != nil {
		return nil, about{}, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	c := &client{http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
	response, err := c.request(ctx, http.MethodGet, "", nil)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, about{}, nil
	case err != nil:
		return nil, about{}, fmt.Errorf("running event store in %s: %w", dir, err)
	}
	defer func() { _ = response.Body.Close() }()
	var said about
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return nil, about{}, fmt.Errorf("running event store in %s: %w", dir, err)
	}
	return c, said, nil
}

// client is a node that another process runs.
type client struct{ http *http.Client }

func (c *client) request(ctx context.Context, method, task string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://node/"+task, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return c.http.Do(request)
}

// run has the other process do a task; its last answer is the result.
func (c *client) run(ctx context.Context, task string, body []byte, progress node.Progress) (last line, err error) {
	response, err := c.request(ctx, http.MethodPost, task, body)
	if err != nil {
		return last, fmt.Errorf("%s on the running event store: %w", task, err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 8<<20) // a hundred problems, each with a stream's name
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return last, fmt.Errorf("%s on the running event store: %w", task, err)
		}
		switch {
		case l.Error == ErrBusy.Error():
			return l, ErrBusy
		case l.Error != "":
			return l, errors.New(l.Error)
		case l.Finished:
			return l, nil
		case progress != nil:
			progress(l.Done, l.Total)
		}
	}
	if err := errors.Join(lines.Err(), ctx.Err()); err != nil {
		return last, fmt.Errorf("%s on the running event store: %w", task, err)
	}
	return last, fmt.Errorf("%s on the running event store: it stopped before it was done", task)
}

// Backup implements Node.
func (c *client) Backup(ctx context.Context, dir string) error {
	body, err := json.Marshal(map[string]string{"dir": dir})
	if err != nil {
		return err
	}
	if _, err = c.run(ctx, taskBackup, body, nil); err != nil && !errors.Is(err, ErrBusy) {
		return fmt.Errorf("the running server, which writes the copy: %w", err)
	}
	return err
}

// Verify implements Node.
func (c *client) Verify(ctx context.Context, progress node.Progress) (node.Report, error) {
	last, err := c.run(ctx, taskVerify, nil, progress)
	if err != nil || last.Report == nil {
		return node.Report{}, err
	}
	return *last.Report, nil
}

// Scavenge implements Node.
func (c *client) Scavenge(ctx context.Context, progress node.Progress) (node.Scavenged, error) {
	last, err := c.run(ctx, taskScavenge, nil, progress)
	if err != nil || last.Scavenged == nil {
		return node.Scavenged{}, err
	}
	return *last.Scavenged, nil
}

// closed is a directory that no process uses. It is opened for each task.
type closed struct{ config node.Config }

func (c closed) open(use func(*node.Node) error) error {
	if err := config.CheckWriter(c.config.Dir); err != nil {
		return err
	}
	n, err := node.Open(c.config)
	if err != nil {
		return err
	}
	return errors.Join(use(n), n.Close())
}

// Backup implements Node.
func (c closed) Backup(ctx context.Context, dir string) error {
	return c.open(func(n *node.Node) error { return n.Backup(ctx, dir) })
}

// Verify implements Node.
func (c closed) Verify(ctx context.Context, progress node.Progress) (node.Report, error) {
	return node.Verify(ctx, c.config, progress)
}

// Scavenge implements Node.
func (c closed) Scavenge(ctx context.Context, progress node.Progress) (scavenged node.Scavenged, err error) {
	err = c.open(func(n *node.Node) error {
		scavenged, err = n.Scavenge(ctx, progress)
		return err
	})
	return scavenged, err
}
