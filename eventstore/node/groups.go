package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	"carillon/eventstore/node/internal/persistent"
	"carillon/eventstore/node/internal/store"
)

// Names of what groups keep beside the log.
const (
	groupPart      = "group/"
	checkpointPart = "checkpoint/"
)

// groupConfig is a persistent subscription as it is stored.
type groupConfig struct {
	Stream   string              `json:"stream"` // or $all
	Group    string              `json:"group"`
	Settings persistent.Settings `json:"settings"`
}

func (c groupConfig) isAll() bool { return c.Stream == allStream }

func (c groupConfig) name() string { return c.Stream + "::" + c.Group }

func (c groupConfig) key() string { return groupKey(c.Stream, c.Group) }

// groupKey can't confuse two groups, whatever is in their names.
func groupKey(stream, group string) string {
	return fmt.Sprintf("%d/%s/%s", len(stream), stream, group)
}

type checkpoint struct {
	Cursor uint64 `json:"cursor"`
}

// groups are the node's persistent subscriptions, all of which run.
type groups struct {
	node    *Node
	mu      sync.Mutex
	running map[string]*runningGroup
	closed  bool
}

type runningGroup struct {
	config        groupConfig
	group         *persistent.Group
	hasCheckpoint bool
}

func groupError(code codes.Code, exception, message, stream, group string) *rpcError {
	return failure(code, message, trailerException, exception, trailerStream, stream, trailerGroup, group)
}

func noSuchGroup(stream, group string) *rpcError {
	return groupError(codes.NotFound, exceptionGroupMissing,
		"Subscription group "+group+" on stream "+stream+" does not exist.", stream, group)
}

// groupFailed refuses settings that no group can work with.
func groupFailed(reason, stream, group string) *rpcError {
	err := groupError(codes.Internal, exceptionGroupFailed,
		"Subscription group "+group+" on stream "+stream+" failed: '"+reason+"'", stream, group)
	err.trailers.Append(trailerReason, reason)
	return err
}

// openGroups starts all groups from where they were.
func (n *Node) openGroups() (*groups, error) {
	g := &groups{node: n, running: make(map[string]*runningGroup)}
	if n.config.ReadOnly {
		return g, nil // they could not remember how far they are
	}
	var configs []groupConfig
	err := n.store.Parts(groupPart, func(name string, value []byte) error {
		var config groupConfig
		if err := json.Unmarshal(value, &config); err != nil {
			return fmt.Errorf("%w: %s: %w", store.ErrCorrupt, name, err)
		}
		configs = append(configs, config)
		return nil
	})
	for _, config := range configs {
		if err == nil {
			err = g.start(config)
		}
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("open persistent subscriptions: %w", err)
	}
	return g, nil
}

// start runs a group. The lock must be held, or the group not yet be known.
func (g *groups) start(config groupConfig) error {
	if g.closed {
		return errClosing
	}
	cursor, hasCheckpoint := config.Settings.Start.Cursor, false
	err := g.node.store.Parts(checkpointPart+config.key(), func(name string, value []byte) error {
		if name != checkpointPart+config.key() {
			return nil
		}
		var saved checkpoint
		if err := json.Unmarshal(value, &saved); err != nil {
			return fmt.Errorf("%w: %s: %w", store.ErrCorrupt, name, err)
		}
		cursor, hasCheckpoint = saved.Cursor, true
		return nil
	})
	if err != nil {
		return err
	}
	source, err := g.node.newGroupSource(config)
	if err != nil {
		return err
	}
	log := g.node.log.With("stream", config.Stream, "group", config.Group)
	g.running[config.key()] = &runningGroup{
		config: config, group: persistent.Run(config.Settings, source, cursor, log), hasCheckpoint: hasCheckpoint,
	}
	return nil
}

func (g *groups) find(stream, group string) (*runningGroup, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if found := g.running[groupKey(stream, group)]; found != nil {
		return found, nil
	}
	if g.node.config.ReadOnly {
		return nil, errReadOnly
	}
	return nil, noSuchGroup(stream, group)
}

// list returns the groups on a stream, or all where it is empty, in the order of their names.
func (g *groups) list(stream string) []*runningGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found []*runningGroup
	for _, one := range g.running {
		if stream == "" || one.config.Stream == stream {
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b *runningGroup) int { return strings.Compare(a.config.name(), b.config.name()) })
	return found
}

func (g *groups) create(ctx context.Context, config groupConfig) error {
	if g.node.config.ReadOnly {
		return errReadOnly
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[config.key()] != nil {
		return groupError(codes.AlreadyExists, exceptionGroupExists,
			"Subscription group "+config.Group+" on stream "+config.Stream+" exists.", config.Stream, config.Group)
	}
	if f := config.Settings.Filter; f != nil {
		room, err := newFilter(f.ByType, f.Prefixes, f.Pattern)
		if err == nil {
			err = g.node.filters.admit(room)
		}
		if err != nil {
			return err
		}
		defer room.release()
	}
	if err := g.save(ctx, config); err != nil {
		return err
	}
	return g.start(config)
}

// update changes a group's settings. Its consumers are dropped and may connect again; its filter stays, as the
// protocol has no way to change it.
func (g *groups) update(ctx context.Context, config groupConfig) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := g.running[config.key()]
	switch {
	case g.node.config.ReadOnly:
		return errReadOnly
	case found == nil:
		return noSuchGroup(config.Stream, config.Group)
	}
	config.Settings.Filter = found.config.Settings.Filter
	if err := g.save(ctx, config); err != nil {
		return err
	}
	found.group.Stop()
	return g.start(config)
}

func (g *groups) save(ctx context.Context, config groupConfig) error {
	if err := config.Settings.Validate(); err != nil {
		return groupFailed(err.Error(), config.Stream, config.Group)
	}
	value, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return g.node.store.Put(ctx, store.PartWrite{Name: groupPart + config.key(), Value: value})
}

// delete ends a group and forgets where it was and what it had parked.
func (g *groups) delete(ctx context.Context, stream, group string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := groupKey(stream, group)
	found := g.running[key]
	switch {
	case g.node.config.ReadOnly:
		return errReadOnly
	case found == nil:
		return noSuchGroup(stream, group)
	}
	delete(g.running, key)
	found.group.Stop()
	if err := g.node.store.Put(ctx,
		store.PartWrite{Name: groupPart + key}, store.PartWrite{Name: checkpointPart + key}); err != nil {
		return err
	}
	_, err := g.node.store.Delete(ctx, groupStreamPrefix+found.config.name()+parkedStreamSuffix, store.StreamExists())
	var wrong *store.WrongRevisionError
	if errors.As(err, &wrong) || errors.Is(err, store.ErrStreamDeleted) {
		return nil // nothing was ever parked
	}
	return err
}

// restart stops all groups and starts them anew.
func (g *groups) restart() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	errs := make([]error, 0, len(g.running))
	for _, one := range g.running {
		one.group.Stop()
		errs = append(errs, g.start(one.config))
	}
	return errors.Join(errs...)
}

func (g *groups) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	var stopping sync.WaitGroup
	for _, one := range g.running {
		stopping.Go(one.group.Stop)
	}
	stopping.Wait()
}
