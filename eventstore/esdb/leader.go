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
	"google.golang.org/grpc/codes"

	"carillon/eventstore"
)

// search is an attempt to find the leader, which all calls wait for that need it.
type search struct {
	over chan struct{} // closed at the end
	err  error         // set before
}

// connected returns the connection to the leader. While there is none it waits until attempts have failed for a while,
// longer if a server is there that is only slow.
func (s *Store) connected(ctx context.Context) (*link, error) {
	began := time.Now()
	patience := time.NewTimer(searchPatience)
	defer patience.Stop()
	var last error
	for {
		s.mu.Lock()
		l, closed := s.link, s.closed
		if l == nil && !closed && s.search == nil {
			s.seek("")
		}
		present := s.search
		s.mu.Unlock()
		switch {
		case closed:
			return nil, errClosed()
		case l != nil:
			return l, nil
		}
		select {
		case <-present.over:
			if last = present.err; last == nil {
				continue
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", eventstore.ErrUnavailable, context.Cause(ctx))
		case <-patience.C:
		}
		waited := time.Since(began)
		if last != nil && waited >= searchPatience && (!s.broken(last) || waited > callTimeout) {
			return nil, noServer(waited, last)
		}
	}
}

// broken reports whether the only server takes connections and breaks them: it is there, and about to serve.
func (s *Store) broken(err error) bool {
	text := err.Error()
	return !s.several.Load() && !strings.Contains(text, "while dialing") &&
		slices.ContainsFunc([]string{"preface", "broken pipe", "reset by peer", "EOF", "error reading from server", "transport is closing"},
			func(sign string) bool { return strings.Contains(text, sign) })
}

// noServer says what kept attempts from a connection. Credentials and certificates won't be right by trying again.
func noServer(waited time.Duration, last error) error {
	waited = waited.Round(100 * time.Millisecond)
	switch code := codeOf(last); {
	case strings.Contains(last.Error(), "failed to verify certificate"): // gRPC makes a text of a handshake's error
		return fmt.Errorf("%w: its certificate is not trusted: %w", eventstore.ErrRefused, last)
	case code == codes.Unauthenticated, code == codes.PermissionDenied:
		return refusedUs(last)
	}
	return fmt.Errorf("%w: no server in %s; last: %w", eventstore.ErrUnavailable, waited, last)
}

// seek begins an attempt, with a member that was named before any other. The store's mutex is held.
func (s *Store) seek(named string) {
	present := &search{over: make(chan struct{})}
	s.search = present
	wait := time.Until(s.failed.Add(searchPause))
	go func() {
		pause(s.ctx, wait)
		found, err := s.discover(named)
		s.mu.Lock()
		defer s.mu.Unlock()
		defer close(present.over)
		s.search, present.err = nil, err
		switch {
		case err != nil:
			s.failed = time.Now()
			s.log.Debug("event store not connected", "error", err)
		case s.closed:
			found.end()
		default:
			s.link = found
			s.log.Debug("event store connected", "address", found.address)
			go s.watch(found)
		}
	}()
}

// discover connects to the leader: the one that was named, or that gossip knows, or whoever answers of those there are.
func (s *Store) discover(named string) (*link, error) {
	var failures []error
	if named != "" {
		l, err := s.dial(s.ctx, named)
		if err == nil {
			return l, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", named, err))
	}
	if s.settings.discover {
		leading, err := s.ask(s.others(""))
		if err != nil {
			return nil, errors.Join(append(failures, err)...)
		}
		l, err := s.dial(s.ctx, leading)
		if err != nil {
			return nil, errors.Join(append(failures, fmt.Errorf("%s: %w", leading, err))...)
		}
		return l, nil
	}
	for _, address := range s.others(named) {
		l, err := s.dial(s.ctx, address)
		if err == nil {
			return l, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", address, err))
	}
	return nil, errors.Join(failures...)
}

// others are all addresses that are known but one.
func (s *Store) others(than string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := slices.Concat(s.settings.seeds, s.members)
	slices.Sort(known[len(s.settings.seeds):])
	unique := known[:0:0]
	for _, address := range known {
		if address != than && !slices.Contains(unique, address) {
			unique = append(unique, address)
		}
	}
	return unique
}

// rumour is what one member says of the cluster.
type rumour struct {
	leader  string // "" where it knows none
	members []string
	err     error
}

// ask asks members who leads, all at once: one that hangs holds up nobody. Where they disagree, most are right.
func (s *Store) ask(members []string) (leader string, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, gossipTimeout)
	defer cancel()
	answers := make(chan rumour, len(members))
	for _, address := range members {
		go func() { answers <- s.gossip(ctx, address) }()
	}
	votes := map[string]int{}
	var failures []error
	var grace <-chan time.Time
	for range members {
		select {
		case answer := <-answers:
			s.remember(answer.members...)
			switch {
			case answer.err != nil:
				failures = append(failures, answer.err)
				continue
			case answer.leader == "":
				failures = append(failures, errors.New("no leader is known"))
				continue
			case grace == nil:
				grace = time.After(gossipGrace)
			}
			votes[answer.leader]++
			if votes[answer.leader] > votes[leader] {
				leader = answer.leader
			}
			continue
		case <-grace:
		case <-ctx.Done():
			failures = append(failures, errors.New("no answer about who leads"))
		}
		break
	}
	if leader == "" {
		return "", errors.Join(failures...)
	}
	return leader, nil
}

func (s *Store) gossip(ctx context.Context, address string) rumour {
	conn, err := s.connect(address)
	if err != nil {
		return rumour{err: fmt.Errorf("%s: %w", address, err)}
	}
	defer func() { _ = conn.Close() }()
	info, err := gossip.NewGossipClient(conn).Read(ctx, &shared.Empty{})
	if err != nil {
		return rumour{err: fmt.Errorf("%s: %w", address, refused(err, nil))}
	}
	heard := rumour{}
	for _, member := range info.GetMembers() {
		end := member.GetHttpEndPoint()
		at := net.JoinHostPort(end.GetAddress(), strconv.FormatUint(uint64(end.GetPort()), 10))
		if end.GetPort() == 0 { // a unix socket
			at = address
		}
		heard.members = append(heard.members, at)
		if member.GetIsAlive() && member.GetState() == gossip.MemberInfo_Leader {
			heard.leader = at
		}
	}
	return heard
}

// remember adds addresses to those that are asked when the leader is lost.
func (s *Store) remember(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, address := range addresses {
		if !slices.Contains(s.members, address) {
			s.members = append(s.members, address)
			s.several.Store(true)
		}
	}
}

// drop gives a connection up.
func (s *Store) drop(l *link) {
	s.mu.Lock()
	if s.link == l {
		s.link = nil
	}
	s.mu.Unlock()
	l.end()
}

// move gives a connection up for one to a member that is said to lead. Calls that are under way go on there.
func (s *Store) move(from *link, leader string) {
	s.remember(leader)
	s.mu.Lock()
	if s.link == from && !s.closed {
		s.log.Info("event store leader changed", "from", from.address, "to", leader)
		s.link = nil
		if s.search == nil {
			s.seek(leader)
		}
	}
	s.mu.Unlock()
	from.end()
}

// look asks the others who leads, and follows them.
func (s *Store) look(l *link) {
	if !l.asking.CompareAndSwap(false, true) {
		return
	}
	defer l.asking.Store(false)
	if leader, err := s.ask(s.others(l.address)); err == nil && leader != l.address {
		s.move(l, leader)
	}
}
