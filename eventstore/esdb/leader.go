package esdb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

// search is the one search for the leader that all calls wait for. It goes on as long as somebody does.
type search struct {
	first   string        // to be tried before any other: a member has named it
	over    chan struct{} // closed at the end
	waiting int           // with last and its time, guarded by the store's mutex
	last    error
	at      time.Time
}

// connected gives the connection to the leader, and waits for a while where there is none: longer where a server is there
// that is only slow.
func (s *Store) connected(ctx context.Context) (*link, error) {
	began := time.Now()
	patience := time.NewTimer(searchPatience)
	defer patience.Stop()
	for {
		s.mu.Lock()
		if s.closed || s.link != nil {
			l, closed := s.link, s.closed
			s.mu.Unlock()
			if closed {
				return nil, errClosed()
			}
			return l, nil
		}
		if s.search == nil {
			s.seek("")
		}
		present := s.search
		present.waiting++
		s.mu.Unlock()
		over := false
		select {
		case <-present.over:
		case <-ctx.Done():
		case <-patience.C:
			over = true
			patience.Reset(searchPause)
		}
		s.mu.Lock()
		present.waiting--
		last, at := present.last, present.at
		s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", eventstore.ErrUnavailable, context.Cause(ctx))
		case over && (last != nil && at.After(began) && !s.broken(last) || time.Since(began) > callTimeout): // else a server is about to answer
			return nil, noServer(time.Since(began), last)
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

// noServer says what kept the search from a connection. Credentials and certificates won't be right by trying again.
func noServer(waited time.Duration, last error) error {
	var untrusted *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	waited = waited.Round(100 * time.Millisecond)
	code := codeOf(last)
	switch {
	case last == nil:
		return fmt.Errorf("%w: no server in %s", eventstore.ErrUnavailable, waited)
	case errors.As(last, &untrusted), errors.As(last, &authority):
		return fmt.Errorf("%w: its certificate is not trusted: %w", eventstore.ErrRefused, last)
	case code == codes.Unauthenticated, code == codes.PermissionDenied:
		return refusedUs(last)
	}
	return fmt.Errorf("%w: no server in %s; last: %w", eventstore.ErrUnavailable, waited, last)
}

// seek begins a search. The store's mutex is held.
func (s *Store) seek(first string) {
	s.search = &search{first: first, over: make(chan struct{})}
	go s.find(s.search)
}

func (s *Store) find(present *search) {
	defer close(present.over)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		found, err := s.discover(present.first)
		s.mu.Lock()
		switch {
		case err == nil && !s.closed:
			s.link, s.search = found, nil
			s.mu.Unlock()
			s.log.Debug("event store connected", "address", found.address)
			go s.watch(found)
			return
		case err == nil:
			found.end()
			fallthrough
		case present.waiting == 0 && present.last != nil, s.closed:
			s.search = nil
			s.mu.Unlock()
			return
		}
		present.first, present.last, present.at = "", err, time.Now()
		s.mu.Unlock()
		s.log.Debug("event store not connected", "error", err)
		pause.Reset(searchPause)
		select {
		case <-pause.C:
		case <-s.ctx.Done():
		}
	}
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
	conn, certificate, err := s.connect(address)
	if err != nil {
		return rumour{err: fmt.Errorf("%s: %w", address, err)}
	}
	defer func() { _ = conn.Close() }()
	info, err := gossip.NewGossipClient(conn).Read(ctx, &shared.Empty{})
	if err = refused(err, nil); err != nil {
		if untrusted := certificate(); untrusted != nil {
			err = untrusted
		}
		return rumour{err: fmt.Errorf("%s: %w", address, err)}
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

// late asks the others who leads, again and again, once a call has waited for long: a leader that is frozen can't say
// that it leads no more. The function returned ends that.
func (s *Store) late(l *link, p *waiting) (answered func()) {
	if !s.several.Load() {
		return func() {}
	}
	stop := make(chan struct{})
	timer := time.AfterFunc(lateAfter, func() {
		again := time.NewTicker(lateAgain)
		defer again.Stop()
		for {
			if _, last := p.waited(); last >= lateAfter { // else a caller is slow, not the leader
				s.look(l)
			}
			select {
			case <-again.C:
			case <-stop:
				return
			case <-l.gone:
				return
			}
		}
	})
	return func() { timer.Stop(); close(stop) }
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
