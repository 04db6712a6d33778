package egress

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"carillon/eventstore/storetest/must"
)

// nameServer is a small authoritative DNS server on loopback. Each name has a sequence of answers, one for each
// look-up; the last one repeats. Unknown names do not exist.
type nameServer struct {
	conn net.PacketConn

	mu      sync.Mutex
	answers map[string][][]netip.Addr
	asked   map[string]int
}

func startNameServer(t *testing.T, answers map[string][][]netip.Addr) *nameServer {
	t.Helper()
	conn := must.Get(new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
	server := &nameServer{conn: conn, answers: answers, asked: map[string]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return server
}

// resolver asks this server only.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *nameServer) lookups(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

func (s *nameServer) serve() {
	packet := make([]byte, 1500)
	for {
		n, peer, err := s.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		if answer, err := s.answer(packet[:n]); err == nil {
			_, _ = s.conn.WriteTo(answer, peer)
		}
	}
}

func (s *nameServer) answer(query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	addrs, known := s.next(question)
	reply := dnsmessage.Header{
		ID:                 header.ID,
		Response:           true,
		Authoritative:      true,
		RecursionAvailable: true,
	}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	builder := dnsmessage.NewBuilder(nil, reply)
	if err := builder.StartQuestions(); err != nil {
		return nil, err
	}
	if err := builder.Question(question); err != nil {
		return nil, err
	}
	if err := builder.StartAnswers(); err != nil {
		return nil, err
	}
	resource := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET}
	for _, addr := range addrs {
		switch {
		case question.Type == dnsmessage.TypeA && addr.Is4():
			err = builder.AResource(resource, dnsmessage.AResource{A: addr.As4()})
		case question.Type == dnsmessage.TypeAAAA && addr.Is6():
			err = builder.AAAAResource(resource, dnsmessage.AAAAResource{AAAA: addr.As16()})
		}
		if err != nil {
			return nil, err
		}
	}
	return builder.Finish()
}

// next moves a name's sequence on with each A question; the AAAA question of the same look-up does not.
func (s *nameServer) next(question dnsmessage.Question) ([]netip.Addr, bool) {
	name := strings.ToLower(strings.TrimSuffix(question.Name.String(), "."))
	s.mu.Lock()
	defer s.mu.Unlock()
	sequence, known := s.answers[name]
	if !known {
		return nil, false
	}
	step := min(s.asked[name], len(sequence)-1)
	if question.Type == dnsmessage.TypeA {
		s.asked[name]++
	}
	return sequence[step], true
}

func addrs(list ...string) []netip.Addr {
	parsed := make([]netip.Addr, 0, len(list))
	for _, s := range list {
		parsed = append(parsed, netip.MustParseAddr(s))
	}
	return parsed
}
