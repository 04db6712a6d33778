package esdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"

	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// connected returns the connection to the leader. If there is none it waits until searches have failed for a while,
// longer if a server is there that is only slow.
func (s *connection) connected(ctx context.Context) (*link, error) {
	for began := time.Now(); ; {
		s.mu.Lock()
		l, closed := s.link, s.closed
		s.mu.Unlock()
		switch {
		case closed:
			return nil, errClosed()
		case l != nil:
			return l, nil
		}
		select {
		case found := <-s.search(""):
			waited := time.Since(began)
			if err := found.Err; err != nil && waited >= searchTimeout && (!s.starting(err) || waited > callTimeout) {
				return nil, noServer(waited, err)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", eventstore.ErrUnavailable, context.Cause(ctx))
		}
	}
}

// starting reports whether the only server takes connections and breaks them: it is about to serve.
func (s *connection) starting(err error) bool {
	if s.several() || codeOf(err) != codes.Unavailable {
		return false
	}
	text := err.Error()
	return !strings.Contains(text, "while dialing") && !strings.Contains(text, "tls:")
}

// noServer returns why there is no connection. Credentials and certificates won't be right by trying again.
func noServer(waited time.Duration, last error) error {
	switch code := codeOf(last); {
	case strings.Contains(last.Error(), "failed to verify certificate"): // gRPC makes a text of a handshake's error
		return fmt.Errorf("%w: its certificate is not trusted: %w", eventstore.ErrRefused, last)
	case code == codes.Unauthenticated, code == codes.PermissionDenied:
		return refusedUs(last)
	}
	waited = waited.Round(100 * time.Millisecond)
	return fmt.Errorf("%w: no server in %s; last: %w", eventstore.ErrUnavailable, waited, last)
}

// search begins a search, at a member that was named as the leader if any, or joins the one in progress.
func (s *connection) search(named string) <-chan singleflight.Result {
	return s.searches.DoChan("leader", func() (any, error) { // callers look for the link
		return nil, panics.Catch(part, func() error { return s.searchOnce(named) })
	})
}

// searchOnce searches for the leader. A failed search, one that panicked included, delays the next.
func (s *connection) searchOnce(named string) error {
	s.mu.Lock()
	connected, wait := s.link != nil, time.Until(s.failed.Add(searchPause))
	s.mu.Unlock()
	if connected && named == "" { // by a search that ended just now
		return nil
	}
	pause(s.ctx, wait)
	var found *link
	err := panics.Catch(part, func() (err error) {
		found, err = s.discover(named)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.failed = time.Now()
		s.log.Debug("event store not connected", "error", err)
	case s.closed:
		found.end()
	default:
		if s.link != nil {
			s.link.end()
		}
		s.link = found
		s.log.Debug("event store connected", "address", found.address)
		go panics.Func(part, func() { s.watch(found) })()
	}
	return err
}

// discover connects to the leader: the one that was named, or that gossip names, or the first member that answers.
func (s *connection) discover(named string) (*link, error) {
	candidates := s.others("")
	if s.settings.discover && named == "" {
		leader, err := s.ask(candidates)
		if err != nil {
			return nil, err
		}
		named = leader
	}
	if named != "" {
		candidates = []string{named}
	}
	var failures []error
	for _, address := range candidates {
		l, err := s.dial(s.ctx, address)
		if err == nil {
			return l, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", address, err))
	}
	return nil, errors.Join(failures...)
}

// others returns all known addresses but one.
func (s *connection) others(than string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Concat(s.settings.seeds, s.members), func(one string) bool { return one == than })
}

// several reports whether there are others to ask who leads.
func (s *connection) several() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings.discover || len(s.members) > 0
}

// remember adds an address to the list that is asked when the leader is lost.
func (s *connection) remember(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.settings.seeds, address) && !slices.Contains(s.members, address) {
		s.members = append(s.members, address)
	}
}

// ask asks members who leads, all at once: a hanging one delays no other. If they disagree, most are right.
func (s *connection) ask(members []string) (leader string, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, gossipTimeout)
	defer cancel()
	type reply struct {
		leader string
		err    error
	}
	replies := make(chan reply, len(members))
	for _, address := range members {
		go func() {
			var leader string
			err := panics.Catch(part, func() (err error) {
				leader, err = s.gossip(ctx, address)
				return err
			})
			replies <- reply{leader, err}
		}()
	}
	votes := map[string]int{}
	failures := []error{errors.New("no leader is known")}
	for range members {
		answer := <-replies
		if answer.err != nil {
			failures = append(failures, answer.err)
			continue
		}
		if len(votes) == 0 {
			time.AfterFunc(gossipGrace, cancel)
		}
		if votes[answer.leader]++; votes[answer.leader] > votes[leader] {
			leader = answer.leader
		}
	}
	if leader == "" {
		return "", errors.Join(failures...)
	}
	return leader, nil
}

// gossip returns the leader that a member knows, and remembers the members that it names.
func (s *connection) gossip(ctx context.Context, address string) (leader string, err error) {
	conn, err := s.connect(address)
	if err != nil {
		return "", fmt.Errorf("%s: %w", address, err)
	}
	defer func() { _ = conn.Close() }()
	info, err := gossip.NewGossipClient(conn).Read(ctx, &shared.Empty{})
	if err != nil {
		return "", fmt.Errorf("%s: %w", address, refused(err, nil))
	}
	for _, member := range info.GetMembers() {
		end := member.GetHttpEndPoint()
		at := net.JoinHostPort(end.GetAddress(), strconv.FormatUint(uint64(end.GetPort()), 10))
		if end.GetPort() == 0 { // a unix socket
			at = address
		}
		s.remember(at)
		if member.GetIsAlive() && member.GetState() == gossip.MemberInfo_Leader {
			leader = at
		}
	}
	if leader == "" {
		return "", fmt.Errorf("%s: it knows no leader", address)
	}
	return leader, nil
}

// drop ends a connection.
func (s *connection) drop(l *link) {
	s.mu.Lock()
	if s.link == l {
		s.link = nil
	}
	s.mu.Unlock()
	l.end()
}

// move replaces a connection by one to a member that is said to lead. Calls in flight continue there.
func (s *connection) move(from *link, leader string) {
	s.remember(leader)
	s.mu.Lock()
	current := s.link == from
	s.mu.Unlock()
	if current {
		s.log.Info("event store leader changed", "from", from.address, "to", leader)
		s.search(leader) // before others search without the name
	}
	s.drop(from)
}

// findLeader asks the others who leads, and follows them.
func (s *connection) findLeader(l *link) {
	if !l.asking.CompareAndSwap(false, true) {
		return
	}
	defer l.asking.Store(false)
	if leader, err := s.ask(s.others(l.address)); err == nil && leader != l.address {
		s.move(l, leader)
	}
}
