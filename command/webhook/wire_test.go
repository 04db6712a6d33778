package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
	"pgregory.net/rapid"

	"carillon/command/egress"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// wireRequest is a request as its bytes say.
type wireRequest struct {
	target string
	lines  []string // of the header, sorted
	sni    string
	err    error
}

// wireServer reads requests byte by byte and takes nothing that RFC 9112 forbids.
func wireServer(tb testing.TB) (*Sender, <-chan wireRequest) {
	tb.Helper()
	certificate := httptest.NewTLSServer(http.NotFoundHandler())
	certificate.Close()
	requests := make(chan wireRequest, 1)
	sni := ""
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: certificate.TLS.Certificates,
		NextProtos:   []string{"http/1.1"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			sni = hello.ServerName
			return nil, nil
		},
	}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(tb)
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			secure := tls.Server(conn, config)
			request := readStrictly(bufio.NewReader(secure))
			request.sni = sni
			_, _ = io.WriteString(secure, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			_ = secure.Close()
			requests <- request
		}
	}()
	transport := egress.NewTransport(loopback, egress.Options{})
	transport.TLSClientConfig.InsecureSkipVerify = true
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
	}
	return NewSender(transport, Options{Version: "1"}), requests
}

func readStrictly(reader *bufio.Reader) (r wireRequest) {
	line := func() string {
		text, err := reader.ReadString('\n')
		if err != nil || !strings.HasSuffix(text, "\r\n") {
			r.err = fmt.Errorf("line %q: %w", text, err)
			return ""
		}
		return strings.TrimSuffix(text, "\r\n")
	}
	parts := strings.Split(line(), " ")
	if len(parts) != 3 || parts[0] != "POST" || parts[2] != "HTTP/1.1" || !strings.HasPrefix(parts[1], "/") {
		r.err = fmt.Errorf("request line %q", parts)
		return r
	}
	r.target = parts[1]
	length, names := 0, map[string]bool{}
	for text := line(); text != "" && r.err == nil; text = line() {
		name, value, found := strings.Cut(text, ": ")
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) ||
			strings.Trim(value, " \t") != value || names[strings.ToLower(name)] {
			r.err = fmt.Errorf("header line %q", text)
		}
		names[strings.ToLower(name)] = true
		r.lines = append(r.lines, text)
		if name == "Content-Length" {
			length, r.err = strconv.Atoi(value)
		}
	}
	slices.Sort(r.lines)
	if _, err := io.CopyN(io.Discard, reader, int64(length)); r.err == nil {
		r.err = err
	}
	return r
}

// asTyped reports whether a target on the wire is what was typed, but for bytes that RFC 3986 does not allow, which are
// percent-encoded.
func asTyped(wire, typed string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/?%"
	for i := range len(typed) {
		c := typed[i : i+1]
		if !strings.Contains(allowed, c) {
			c = fmt.Sprintf("%%%02X", typed[i])
		}
		rest, found := strings.CutPrefix(wire, c)
		if !found {
			return false
		}
		wire = rest
	}
	return wire == ""
}

// All accepted URLs and headers of a destination arrive as typed, and refused ones are named.
func TestAcceptedRequestArrivesAsTyped(t *testing.T) {
	t.Parallel()
	sender, requests := wireServer(t)
	secret := mint(t)
	hosts := rapid.SampledFrom([]string{"example.com", "LOCALHOST", "Hooks.Example.COM", "bücher.example",
		"BÜCHER.example", "127.0.0.1", "[::1]", "a_b.example"})
	targets := rapid.OneOf(
		rapid.StringMatching(`(/[a-zA-Z0-9._~!$&'()*+,;=:@é%ü"<>^{|}\x60\[\]-]{0,8}){0,4}(\?[a-zA-Z0-9/?:@&`+
			`=+%é"<>{|}^'\[\]#-]{0,12})?`),
		rapid.SampledFrom([]string{"", "/", "?", "/?", "//a", "/a/../b", "/%2F/é", "/a%c3%A9b", "?q=é", "?a=%", "/a#b", "/*",
			"/ü?ü=ü", "/%"}),
	)
	names := rapid.OneOf(
		rapid.SampledFrom([]string{
			"SOAPAction", "x-tenant", "accept", "ACCEPT", "Idempotency-Key", "x-idempotency-key", "Trailer", "tE", "Expect",
			"Range", "Date",
			"Accept-Encoding", "authorization", "Cookie", "Referer", "Content-Encoding", "proxy-connection", "Host", "If-Match",
			"Via", "Upgrade",
		}),
		rapid.StringMatching(`[A-Za-z!#$%&'*+.^_|~0-9-]{1,6}`),
	)
	values := rapid.OneOf(rapid.StringMatching(`[ -~é\t]{0,12}`),
		rapid.SampledFrom([]string{"", "a  b", "gzip", "100-continue", "bytes=0-1", "trailers", " x", "x\n"}))
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		host, port := hosts.Draw(t, "host"), rapid.SampledFrom([]string{"", ":8443", ":443"}).Draw(t, "port")
		target := targets.Draw(t, "target")
		headers := rapid.MapOfN(names, values, 0, 3).Draw(t, "headers")
		url := "https://" + host + port + target
		if _, err := loopback.CheckURL("config.url", url); host != "[::1]" && err != nil {
			if !strings.HasPrefix(err.Error(), "config.url must ") {
				t.Fatalf("%q: %v", url, err)
			}
			return
		}
		if err := ValidateHeaders(headers); err != nil {
			return
		}
		if host == "[::1]" && strings.ContainsAny(target, "%#") {
			return
		}
		result := sender.Send(context.Background(), Request{
			URL:     url,
			Headers: headers,
			Secrets: []Secret{secret},
			ID:      "d",
			Body:    []byte("{}"),
		})
		if !result.OK() {
			t.Fatalf("%q %q: %+v", url, headers, result)
		}
		accepted++
		got := <-requests
		if got.err != nil {
			t.Fatalf("%q %q: %v", url, headers, got.err)
		}
		if !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
		if !asTyped(got.target, target) {
			t.Fatalf("%q arrived as %q", target, got.target)
		}
		ascii := strings.NewReplacer("bücher", "xn--bcher-kva").Replace(strings.ToLower(host))
		if name := ascii; strings.Trim(host, "[]0123456789.:") != "" && got.sni != name {
			t.Fatalf("%q: SNI %q, want %q", host, got.sni, name)
		}
		want := []string{"Content-Length: 2", "Content-Type: application/json", "User-Agent: Carillon/1",
			"Host: " + ascii + port}
		if !slices.ContainsFunc(got.lines, func(line string) bool { return strings.HasPrefix(line, "webhook-id: ") }) {
			t.Fatalf("no webhook-id in %q", got.lines)
		}
		accepts := false
		for name, value := range headers {
			want = append(want, name+": "+value)
			accepts = accepts || strings.EqualFold(name, "accept")
		}
		if !accepts {
			want = append(want, "Accept: */*")
		}
		slices.Sort(want)
		if lines := slices.DeleteFunc(got.lines, func(line string) bool {
			return strings.HasPrefix(line, "webhook-")
		}); !slices.Equal(lines, want) {
			t.Fatalf("header %q, want %q", lines, want)
		}
	})
	assert.True(t, accepted != 0, "nothing was accepted")
}
