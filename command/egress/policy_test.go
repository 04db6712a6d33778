package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestCheckBoundaries(t *testing.T) {
	t.Parallel()
	// For every denied range: its first and last address are refused; the neighbours outside are allowed unless another
	// range holds them.
	outside := map[bool]int{}
	for _, prefixes := range [][]netip.Prefix{denied4, denied6} {
		for _, prefix := range prefixes {
			first, last := prefix.Addr(), lastAddr(prefix)
			for _, addr := range []netip.Addr{first, last} {
				assert.Is(t, (Policy{}).Check(addr), ErrBlocked, "%s of %s", addr, prefix)
			}
			for _, addr := range []netip.Addr{first.Prev(), last.Next()} {
				outside[Policy{}.Check(addr) == nil]++
			}
		}
	}
	if outside[true] < 30 {
		t.Errorf("only %d neighbours of denied ranges are allowed", outside[true])
	}
}

func lastAddr(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, allowed := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"172.15.255.255", "172.32.0.0", "192.0.1.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "168.63.129.15",
		"::ffff:8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001::200e", "2001:200::1", "2400::1", "3ffe::1",
		"64:ff9b::808:808", "2606:4700::5efe:808:808",
	} {
		assert.Is(t, (Policy{}).Check(netip.MustParseAddr(allowed)), nil, "%s", allowed)
	}
	assert.Is(t, (Policy{}).Check(netip.Addr{}), ErrBlocked, "zero address")
	everything := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("::/0"), netip.MustParsePrefix("0.0.0.0/0")}}
	assert.Is(t, everything.Check(netip.MustParseAddr("fe80::1%eth0")), ErrBlocked,
		"a zone is refused whatever is allowed")
	for _, opened := range []string{"10.0.0.1", "::1", "::ffff:127.0.0.1", "fd00::1"} {
		assert.Is(t, everything.Check(netip.MustParseAddr(opened)), nil, "%s", opened)
	}
}

func TestGuardResolves(t *testing.T) {
	t.Parallel()
	server := startNameServer(t, map[string][][]netip.Addr{
		"public.example":  {addrs("8.8.8.8", "1.1.1.1")},
		"private.example": {addrs("10.0.0.7", "192.168.1.1")},
		"mixed.example":   {addrs("127.0.0.1", "8.8.4.4")},
		"six.example":     {addrs("fd00::1")},
		"empty.example":   {nil},
	})
	guard := Guard{Resolver: server.resolver()}
	for _, test := range []struct{ host, want, wantErr string }{
		{"public.example", "8.8.8.8 1.1.1.1", ""},
		{"PUBLIC.example.", "8.8.8.8 1.1.1.1", ""},
		{"private.example", "", "config.url points to a private or reserved address (10.0.0.7)"},
		{"mixed.example", "8.8.4.4", ""},
		{"six.example", "", "config.url points to a private or reserved address (fd00::1)"},
		{"empty.example", "", ""},
		{"missing.example", "", ""},
		{"0x7f.1", "", "config.url points to a private or reserved address (127.0.0.1)"},
		{"8.8.8.8", "8.8.8.8", ""},
	} {
		got, err := guard.CheckHost(t.Context(), test.host)
		if (err != nil) != (test.wantErr != "") || err != nil && !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: %v", test.host, err)
		}
		spelled := ""
		for i, addr := range got {
			if i > 0 {
				spelled += " "
			}
			spelled += addr.String()
		}
		if diff := cmp.Diff(test.want, spelled); diff != "" {
			t.Errorf("%s: %s", test.host, diff)
		}
		_, err = guard.CheckURL(t.Context(), "config.url", "https://"+test.host+"/hook")
		assert.Equal(t, text(err), test.wantErr, "%s", test.host)
	}
}

func TestGuardReportsCancellation(t *testing.T) {
	t.Parallel()
	server := startNameServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Guard{Resolver: server.resolver()}.CheckURL(ctx, "config.url", "https://missing.example/")
	assert.True(t, errors.Is(err, context.Canceled) && !errors.Is(err, ErrURL), "got %v", err)
}

func TestGuardRefusesMalformedHost(t *testing.T) {
	t.Parallel()
	_, err := (Guard{}).CheckHost(t.Context(), "a..b")
	assert.True(t, err != nil && !errors.Is(err, ErrBlocked), "got %v", err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

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
