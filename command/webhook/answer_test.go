package webhook

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"carillon/command/egress"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// rawServer hands each connection over after its handshake, in which it takes the protocols that are named.
func rawServer(tb testing.TB, protocols []string, serve func(*tls.Conn)) (url string, _ *Sender) {
	tb.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	listener := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: server.TLS.Certificates, NextProtos: protocols,
	}))(tb)
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if secure, ok := conn.(*tls.Conn); ok && secure.Handshake() == nil {
					serve(secure)
				}
			}()
		}
	}()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	transport := egress.NewTransport(loopback, egress.Options{RootCAs: pool})
	tb.Cleanup(transport.CloseIdleConnections)
	return "https://" + listener.Addr().String() + "/", NewSender(transport, Options{})
}

// A receiver answers before it has read the request, and closes: its answer is what came of the attempt.
func TestEarlyAnswerIsRead(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"413 Payload Too Large", "200 OK"} {
		url, sender := rawServer(t, nil, func(conn *tls.Conn) {
			if _, err := http.ReadRequest(bufio.NewReaderSize(conn, 1<<10)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 "+answer+"\r\nContent-Length: 5\r\nConnection: close\r\n\r\nearly")
			}
		})
		body := bytes.Repeat([]byte("x"), 500<<10)
		for round := range 64 {
			result := sender.Send(t.Context(), Request{
				URL:     url,
				Secrets: []Secret{mint(t)},
				ID:      "d",
				Body:    body,
			})
			must.True(t, strings.HasPrefix(answer, strconv.Itoa(result.StatusCode)) && result.Body == "early",
				"%s, round %d: %+v", answer, round, result)
		}
	}
}

// A receiver that speaks HTTP/2 only is named as such at once, whether it refuses the protocol or begins to speak its
// own.
func TestHTTP2OnlyReceiverIsNamed(t *testing.T) {
	t.Parallel()
	const want = "the receiver speaks HTTP/2 only, and requests are sent by HTTP/1.1"
	url, sender := rawServer(t, []string{"h2-16"}, func(*tls.Conn) {})
	result := sender.Send(t.Context(), requestTo(t, url))
	assert.True(t, result.ErrorMessage == want && result.StatusCode == 0, "refused: %+v", result)
	url, sender = rawServer(t, nil, func(conn *tls.Conn) {
		_, _ = conn.Write([]byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100})
		_, _ = io.Copy(io.Discard, conn)
	})
	result = sender.Send(t.Context(), requestTo(t, url))
	assert.True(t, result.ErrorMessage == want && result.StatusCode == 0, "answered in HTTP/2: %+v", result)
	found := sender.Probe(t.Context(), nil, url)
	assert.True(t, !found.Reachable && found.ErrorMessage == want, "probed: %+v", found)
}

func compressed(tb testing.TB, writer func(io.Writer) io.WriteCloser, text string) string {
	tb.Helper()
	var buffer bytes.Buffer
	w := writer(&buffer)
	must.Get(io.WriteString(w, text))(tb)
	must.OK(tb, w.Close())
	return buffer.String()
}

func TestAnswerIsReadable(t *testing.T) {
	t.Parallel()
	utf16le := ""
	for _, unit := range utf16.Encode([]rune("Größe 😀")) {
		utf16le += string([]byte{byte(unit), byte(unit >> 8)}) //nolint:gosec // that is what it is
	}
	gzipped := func(text string) string {
		return compressed(t, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, text)
	}
	bomb := gzipped(strings.Repeat("a", 10<<20))
	for name, test := range map[string]struct{ contentType, encoding, body, want string }{
		"Latin 1":          {"text/html; charset=ISO-8859-1", "", "Gr\xf6\xdfe", "Größe"},
		"UTF-16":           {`text/plain; charset="utf-16le"`, "", utf16le, "Größe 😀"},
		"Shift JIS":        {"text/plain;charset=shift_jis", "", "\x83e\x83X\x83g", "テスト"},
		"UTF-8":            {"text/plain; charset=utf-8", "", "Größe", "Größe"},
		"unknown charset":  {"text/plain; charset=klingon", "", "Gr\xf6sse", "Gr\uFFFDsse"},
		"no charset":       {"text/plain", "", "Gr\xf6sse", "Gr\uFFFDsse"},
		"gzip":             {"text/plain", "gzip", gzipped("unasked"), "unasked"},
		"gzip and Latin 1": {"text/plain; charset=latin1", "GZIP", gzipped("\xf6"), "ö"},
		"gzip, cut":        {"text/plain", "gzip", gzipped("unasked")[:17], "unaske"},
		"deflate": {"text/plain", "deflate", compressed(t, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
			"unasked"),
			"unasked"},
		"no gzip": {"text/plain", "gzip", "plain",
			"[5 bytes of an answer in content-encoding gzip, which was not asked for]"},
		"brotli": {"text/plain", "br", "\x0b\x02",
			"[2 bytes of an answer in content-encoding br, which was not asked for]"},
		"a bomb":   {"text/plain", "gzip", bomb, strings.Repeat("a", MaxBodyCharacters) + TruncationSuffix},
		"identity": {"text/plain", "identity", "plain", "plain"},
	} {
		header := http.Header{"Content-Type": {test.contentType}}
		if test.encoding != "" {
			header.Set("Content-Encoding", test.encoding)
		}
		assert.Equal(t, answerText([]byte(test.body), header, func() *concealer { return nil }), test.want, "%s", name)
	}
}

// Header values, and masked parts of the address, that an answer repeats are not stored.
func TestAnswerConcealsSecrets(t *testing.T) {
	t.Parallel()
	const token, path, key, password = "tok/en&\"7", "T0/B0SECRET/x", "querysecret<1>", "hunter22"
	headers := map[string]string{
		"Authorization": "Bearer " + token, "X-Api-Key": "k-4711", "X-Version": "v1",
		"Proxy-Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+password)),
	}
	e := startEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://other.example"+r.RequestURI)
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, "v1: no route "+r.RequestURI+" or "+r.URL.Path+" for "+r.Header.Get("Authorization")+", "+
			r.Header.Get("X-Api-Key")+`, {"token":"tok\/en&\"7","key":"querysecret\u003c1\u003e"} tok/en&amp;&#34;7 `+password+
			" "+r.URL.Query().Get("key"))
	})
	result := e.sender(t, loopback, Options{}).Send(t.Context(), Request{
		URL:     e.URL + "/services/" + path + "?key=" + key,
		Headers: headers,
		Secrets: []Secret{mint(t)},
		ID:      "d",
		Body:    []byte("{}"),
	})
	const body = `v1: no route /services/[masked] or /services/[masked] for [masked], [masked], {"token":"[masked]",` +
		`"key":"[masked]"} ` +
		`[masked] [masked] [masked]`
	assert.Equal(t, result.Body, body, "Body")
	if want := "endpoint answered 302 Found to https://other.example/services/[masked]; redirects are not " +
		"followed"; result.ErrorMessage != want {
		t.Errorf("got %s", result.ErrorMessage)
	}
}

// An error page of a framework that shows its settings shows no signing secret, however it writes it.
func TestAnswerConcealsSigningSecrets(t *testing.T) {
	t.Parallel()
	key := []byte("\xff\xef\xbe<a key?> of 32 bytes >>>>?")
	const text = "whsec_/+++PGEga2V5Pz4gb2YgMzIgYnl0ZXMgPj4+Pj8="
	secret, err := ParseSecret(text)
	must.True(t, err == nil && bytes.Equal(secret.bytes(), key), "%v", err)
	hide := newConcealer("https://example.org/", nil, mint(t), secret)
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	for _, shown := range []string{
		text, text[6:], strings.TrimRight(text, "="), encoded, base64.StdEncoding.EncodeToString([]byte(text[6:])),
		base64.RawURLEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString([]byte(text)),
		hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)), hex.EncodeToString([]byte(text)),
		url.QueryEscape(text), strings.ReplaceAll(text, "/", `\/`), strings.ReplaceAll(text, "+", "&#43;"),
	} {
		if got := hide.replace("SECRET=" + shown + ";"); strings.TrimRight(got[:len(got)-1], "=") != "SECRET=[masked]" &&
			got != "SECRET=[masked]%3D;" {
			t.Errorf("%s: %s", shown, got)
		}
	}
	e := startEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Debug", text)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, text)
	})
	result := e.sender(t, loopback, Options{}).Send(t.Context(), Request{URL: e.URL, Secrets: []Secret{secret}, ID: "d"})
	assert.True(t, !strings.Contains(result.Body+result.Headers+result.ErrorMessage, text[6:20]) &&
		result.StatusCode == 500, "%+v", result)
}

// Addresses that are shown whole hide nothing in answers.
func TestAnswerKeepsWhatIsShown(t *testing.T) {
	t.Parallel()
	for address, text := range map[string]string{
		"https://example.org/hook": "no route /hook",
		"https://example.org/":     "no route /",
		"https://example.org":      "a/b?c",
		"https://example.org/?":    "a/b?c",
	} {
		assert.Equal(t, newConcealer(address, map[string]string{"X-Debug": "on"}).replace(text), text, "%s", address)
	}
	for address, want := range map[string]string{
		"https://example.org/hook?k=1":   "no route /hook?[masked]",
		"https://example.org/hooks/1":    "no route /hooks/[masked]",
		"https://example.org?k=1":        "no route ?[masked]",
		"https://example.org/9x7?a=b#cd": "no route /[masked]",
	} {
		_, target, _ := strings.Cut(address, "example.org")
		target, _, _ = strings.Cut(target, "#")
		assert.Equal(t, newConcealer(address, nil).replace("no route "+target), want, "%s", address)
	}
}

// A connection that is too old is not used again, so that a receiver that has moved is found.
func TestOldConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t, func(http.ResponseWriter, *http.Request) {})
	sender := e.sender(t, loopback, Options{})
	transport, ok := sender.transport.(*http.Transport)
	must.True(t, ok, "not a transport of net/http")
	dial := transport.DialContext
	var opened []*egress.Conn
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		opened = append(opened, egress.ConnOf(conn))
		return conn, err
	}
	for range 3 {
		result := sender.Send(t.Context(), requestTo(t, e.URL))
		must.True(t, result.OK(), "%+v", result)
	}
	must.Equal(t, len(opened), 1, "connections")
	opened[0].Expire(time.Now())
	if result := sender.Send(t.Context(), requestTo(t, e.URL)); !result.OK() || len(opened) != 2 {
		t.Errorf("%d connections, %+v", len(opened), result)
	}
}

// TestShownHeaders: headers are in the order of names, bounded, valid text, and without cookies and secrets.
func TestShownHeaders(t *testing.T) {
	t.Parallel()
	hide := newConcealer("https://example.org/hook/topsecret", map[string]string{"X-Key": "sesame-open"})
	got := shownHeaders(http.Header{
		"X-Id":       {"1", "2"},
		"Server":     {"nginx sesame-open"},
		"Set-Cookie": {"session=abc; Path=/"},
		"Odd":        {"\xff\x00"},
	}, hide)
	want := "odd: \ufffd\ufffd\nserver: nginx [masked]\nset-cookie: [masked]\nx-id: 1\nx-id: 2\n"
	assert.Equal(t, got, want, "got")
	many := http.Header{}
	for i := range 100 {
		many.Add("X-Many", strings.Repeat("ü", 200+i*10))
	}
	long := shownHeaders(many, nil)
	if len(long) > maxHeaders+10 || !utf8.ValidString(long) || !strings.HasSuffix(long, "…\n") {
		t.Errorf("%d bytes, ending %q", len(long), long[len(long)-20:])
	}
	assert.Equal(t, shownHeaders(nil, nil), "", "no headers")
}

func TestKeptText(t *testing.T) {
	t.Parallel()
	const limit = MaxBodyCharacters
	for name, test := range map[string]struct{ raw, want string }{
		"empty":        {"", ""},
		"short":        {"päron", "päron"},
		"NUL":          {"a\x00b", "a\uFFFDb"},
		"not UTF-8":    {"a\xff\xfeb", "a\uFFFD\uFFFDb"},
		"at the limit": {strings.Repeat("a", limit), strings.Repeat("a", limit)},
		"one over":     {strings.Repeat("a", limit+1), strings.Repeat("a", limit) + TruncationSuffix},
		"wide, limit":  {strings.Repeat("😀", limit), strings.Repeat("😀", limit)},
		"wide, over":   {strings.Repeat("😀", limit+1), strings.Repeat("😀", limit) + TruncationSuffix},
		"bytes, over":  {strings.Repeat("\xff", limit+1), strings.Repeat("\uFFFD", limit) + TruncationSuffix},
		"huge":         {strings.Repeat("ü", 10*limit), strings.Repeat("ü", limit) + TruncationSuffix},
	} {
		reader := strings.NewReader(test.raw)
		got := readBody(reader, reader.Size(), keptText)
		if got != test.want || !utf8.ValidString(got) {
			t.Errorf("%s: got %d characters, want %d", name, utf8.RuneCountInString(got), utf8.RuneCountInString(test.want))
		}
		assert.Equal(t, reader.Len(), 0, "%s … bytes left, the connection is lost", name)
	}
	endless := strings.NewReader(strings.Repeat("a", readBytes+drainUnknown+1))
	readBody(endless, -1, keptText)
	assert.Equal(t, endless.Len(), 1, "read past the drain limit … left")
	long := strings.NewReader(strings.Repeat("a", readBytes+drainBytes+1))
	readBody(long, long.Size(), keptText)
	assert.Equal(t, long.Len(), drainBytes+1, "of an answer that is too long to be drained … are left")
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		status int
		value  string
		want   time.Duration
	}{
		{429, "120", 2 * time.Minute},
		{502, " 7 ", 7 * time.Second},
		{503, "0", 0},
		{504, "86400", 24 * time.Hour},
		{503, "86401", 24 * time.Hour},
		{503, "99999999999999999999999", 24 * time.Hour},
		{503, "-5", 0},
		{503, "1.5", 0},
		{503, "soon", 0},
		{503, "", 0},
		{503, "Sat, 21 Nov 2026 12:01:30 GMT", 90 * time.Second},
		{503, "Saturday, 21-Nov-26 12:01:30 GMT", 90 * time.Second},
		{503, "Sat Nov 21 12:01:30 2026", 90 * time.Second},
		{503, "Sat, 21 Nov 2026 11:00:00 GMT", 0},
		{503, "Sat, 28 Nov 2026 11:00:00 GMT", 24 * time.Hour},
		{500, "120", 0},
		{200, "120", 0},
		{301, "120", 0},
	} {
		header := http.Header{}
		if test.value != "" {
			header.Set("Retry-After", test.value)
		}
		assert.Equal(t, retryAfter(test.status, header, now), test.want, "%d %q", test.status, test.value)
	}
}

// asked notes how much room each read of it gave.
type asked struct {
	io.Reader

	room []int
}

func (a *asked) Read(p []byte) (int, error) {
	a.room = append(a.room, len(p))
	return a.Reader.Read(p)
}

// An answer that is slow to come holds little memory meanwhile: there may be two thousand of them.
func TestAnnouncedBodyTakesLittleMemory(t *testing.T) {
	t.Parallel()
	const text = "slow"
	slow := &asked{Reader: iotest.OneByteReader(strings.NewReader(text))}
	assert.Equal(t, readBody(slow, 1<<20, keptText), text, "readBody")
	for _, room := range slow.room {
		must.True(t, room <= firstBytes, "%d bytes wait for an answer of %d", room, len(text))
	}
	for _, length := range []int{firstBytes - 1, firstBytes, firstBytes + 1, 3 * firstBytes} {
		whole := strings.Repeat("a", length)
		if got := readBody(strings.NewReader(whole), int64(length), keptText); got != whole {
			t.Errorf("of %d bytes %d are kept", length, len(got))
		}
	}
}
