package front_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/front"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const patience = time.Minute // for an answer, on a busy machine

// echo answers with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = fmt.Fprintf(w, "%s %s %q tls=%t %s", r.Method, r.URL.Path, body, r.TLS != nil, r.Proto)
}

// serve answers until the test ends.
func serve(t *testing.T, certificate *front.Certificate) net.Addr {
	t.Helper()
	listener := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- front.Serve(ctx, listener, http.HandlerFunc(echo), nil, certificate, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		cancel()
		must.OK(t, <-done)
	})
	return listener.Addr()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	listener := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	return listener
}

func dial(t *testing.T, to net.Addr) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn := must.Get(dialer.DialContext(t.Context(), "tcp", to.String()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// answers sends bytes as they are, piece by piece, and returns the statuses of the answers until the connection ends.
func answers(t *testing.T, to net.Addr, sent string, piece int) (statuses, bodies []string) {
	t.Helper()
	conn := dial(t, to)
	piece = max(piece, len(sent)/10_000) // the server waits for a header for 5 s, also on a busy machine
	go func() {
		for at := 0; at < len(sent); at += piece {
			if _, err := conn.Write([]byte(sent[at:min(len(sent), at+piece)])); err != nil {
				return // it was refused before its end
			}
		}
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	reader := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return statuses, bodies
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		statuses, bodies = append(statuses, fmt.Sprint(response.StatusCode)), append(bodies, string(body))
	}
}

const (
	secret = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
	post   = "POST /a HTTP/1.1\r\nHost: h\r\n"
)

// TestHostileFraming: bytes that two servers in a row may split differently are answered 400, and nothing hidden in
// them becomes a request.
func TestHostileFraming(t *testing.T) {
	t.Parallel()
	to := serve(t, nil)
	tests := map[string]string{
		"Content-Length, then chunked": post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
			secret,
		"chunked, then Content-Length": post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" +
			secret,
		"both, in other case": post + "cONTENT-lENGTH: 4\r\ntRANSFER-eNCODING: chunked\r\n\r\n0\r\n\r\n" +
			secret,
		"both, of HTTP/1.0": "POST /a HTTP/1.0\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n" +
			"\r\n0\r\n\r\n" + secret,
		"chunked, of HTTP/1.0": "POST /a HTTP/1.0\r\nConnection: keep-alive\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + secret,
		"two lengths":                   post + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd" + secret,
		"two lengths that are the same": post + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd" + secret,
		"a list of lengths":             post + "Content-Length: 4, 4\r\n\r\nabcd" + secret,
		"a signed length":               post + "Content-Length: +4\r\n\r\nabcd" + secret,
		"a negative length":             post + "Content-Length: -1\r\n\r\nabcd" + secret,
		"a length in hexadecimal":       post + "Content-Length: 0x4\r\n\r\nabcd" + secret,
		"an empty length":               post + "Content-Length:\r\n\r\nabcd" + secret,
		"a length beyond all":           post + "Content-Length: 99999999999999999999\r\n\r\nabcd" + secret,
		"chunked twice": post +
			"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + secret,
		"another coding": post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + secret,
		"identity":       post + "Transfer-Encoding: identity\r\n\r\n" + secret,
		"a coding in disguise": post + "Transfer-Encoding: \vchunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" +
			secret,
		"a space before the colon": post + "Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" +
			secret,
		"a folded header": post +
			"X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + secret,
		"a header that begins folded":          post + "\tContent-Length: 5\r\n\r\nabcde" + secret,
		"bare line feeds everywhere":           strings.ReplaceAll(secret, "\r\n", "\n"),
		"a bare line feed after the request":   "GET /a HTTP/1.1\nHost: h\r\n\r\n" + secret,
		"a bare line feed after a header":      "GET /a HTTP/1.1\r\nHost: h\nX: y\r\n\r\n" + secret,
		"a bare line feed at the header's end": "GET /a HTTP/1.1\r\nHost: h\r\n\n" + secret,
		"a bare carriage return": "GET /a HTTP/1.1\r\nHost: h\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n" +
			secret,
		"two carriage returns":          "GET /a HTTP/1.1\r\nHost: h\r\r\n\r\n" + secret,
		"a bare line feed after a size": post + "Transfer-Encoding: chunked\r\n\r\n4\nabcd\r\n0\r\n\r\n" + secret,
		"a bare line feed in an extension": post + "Transfer-Encoding: chunked\r\n\r\n4;a\nb\r\nabcd\r\n0\r\n\r\n" +
			secret,
		"a bare line feed after a chunk":      post + "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\n0\r\n\r\n" + secret,
		"a bare line feed after the trailer":  post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\n" + secret,
		"a chunk that is longer than it says": post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n" + secret,
		"an invalid size":                     post + "Transfer-Encoding: chunked\r\n\r\n0x4\r\nabcd\r\n0\r\n\r\n" + secret,
		"a size beyond all": post +
			"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabcd\r\n0\r\n\r\n" + secret,
		"a negative size": post + "Transfer-Encoding: chunked\r\n\r\n-4\r\nabcd\r\n0\r\n\r\n" + secret,
		"an empty size":   post + "Transfer-Encoding: chunked\r\n\r\n\r\nabcd\r\n0\r\n\r\n" + secret,
		"an endless extension": post + "Transfer-Encoding: chunked\r\n\r\n4;" + strings.Repeat("x", 5000) +
			"\r\nabcd\r\n0\r\n\r\n" + secret,
	}
	for name, sent := range tests {
		for _, piece := range []int{len(sent), 1} {
			t.Run(fmt.Sprintf("%s, %d bytes at a time", name, piece), func(t *testing.T) {
				t.Parallel()
				statuses, bodies := answers(t, to, sent, piece)
				assert.True(t, len(statuses) == 1 && statuses[0] == "400",
					"answered %s %q, want one answer of 400", statuses, bodies)
				// A request that is honest goes through before it, and nothing after it.
				statuses, bodies = answers(t, to, "GET /before HTTP/1.1\r\nHost: h\r\n\r\n"+sent, piece)
				assert.True(t, len(statuses) != 0 && statuses[0] == "200" && strings.Contains(bodies[0], "/before") &&
					!strings.Contains(strings.Join(bodies, ""), "smuggled"), "behind an honest request: %s %q", statuses, bodies)
			})
		}
	}
}

// TestHonestRequestsPass: keep-alive, pipelining, chunks, trailers, extensions, bodies that the handler does not read.
func TestHonestRequestsPass(t *testing.T) {
	t.Parallel()
	to := serve(t, nil)
	sent := post + "Content-Length: 4\r\n\r\nab\ncGET /b HTTP/1.1\r\nHost: h\r\n\r\n" +
		post + "Transfer-Encoding: Chunked\r\nTrailer: X\r\n\r\n4;name=value\r\n\n\n\n\n\r\n00A  \r\n0123456789\r\n0\r\n" +
		"X: y\r\n\r\n" +
		"POST /c HTTP/1.1\r\nHost: h\r\nContent-Length:0\r\n\r\n" +
		"PUT /d HTTP/1.1\r\nHost: h\r\nX:\r\nContent-Length: 003\t\r\n\r\n\r\n\n" +
		"GET /e HTTP/1.0\r\n\r\n"
	want := `POST /a "ab\nc" tls=false HTTP/1.1
GET /b "" tls=false HTTP/1.1
POST /a "\n\n\n\n0123456789" tls=false HTTP/1.1
POST /c "" tls=false HTTP/1.1
PUT /d "\r\n\n" tls=false HTTP/1.1
GET /e "" tls=false HTTP/1.0`
	for _, piece := range []int{len(sent), 1, 7} {
		statuses, bodies := answers(t, to, sent, piece)
		assert.Equal(t, strings.Join(bodies, "\n"), want, "%d bytes at a time: %s", piece, statuses)
	}
}

// TestHostileFramingOverTLS: the same holds where TLS is our own, while HTTP/2 goes on.
func TestHostileFramingOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := files(t, "one.example")
	certificate := must.Get(front.ReadCertificate(cert, key, slog.New(slog.DiscardHandler)))(t)
	to := serve(t, certificate)
	for sent, want := range map[string]int{
		post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": 400,
		post + "Content-Length: 4\r\n\r\nabcd":                                    200,
	} {
		conn := tls.Client(dial(t, to), &tls.Config{
			InsecureSkipVerify: true,
			MinVersion:         tls.VersionTLS12,
		}) //nolint:gosec // whose it is does not matter
		must.Get(io.WriteString(conn, sent))(t)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must.True(t, err == nil && response.StatusCode == want, "answered %v, %v; want %d", response, err, want)
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if want == 200 &&
			(string(body) != `POST /a "abcd" tls=true HTTP/1.1` ||
				response.Header.Get("Strict-Transport-Security") != "max-age=31536000") {
			t.Errorf("answered %s with %v", body, response.Header)
		}
	}
	client := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	}} //nolint:gosec // whose it is does not matter
	defer client.CloseIdleConnections()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+to.String()+"/two",
		strings.NewReader("abc")))(t)
	response, err := client.Do(request)
	must.OK(t, err)
	defer func() { _ = response.Body.Close() }()
	if body, _ := io.ReadAll(response.Body); string(body) != `POST /two "abc" tls=true HTTP/2.0` ||
		response.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("over HTTP/2 it answered %s with %v", body, response.Header)
	}
	// Clients that speak plain HTTP to it get an answer, and delay no other.
	statuses, bodies := answers(t, to, secret, 100)
	var refused struct {
		Success bool
		Error   struct{ Code, Message string }
	}
	assert.True(t, len(statuses) == 1 && statuses[0] == "401" && json.Unmarshal([]byte(bodies[0]), &refused) == nil &&
		!refused.Success && refused.Error.Code == "AUTHENTICATION_FAILED" &&
		strings.Contains(refused.Error.Message, "use https"), "plain HTTP was answered %s %q", statuses, bodies)
}

// TestPathsAreEscapedBeforeTheyAreRead: a percent sign that begins no escape is a character as any other, in whichever
// pieces it comes; all else stays as it was.
func TestPathsAreEscapedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	to := serve(t, nil)
	for target, want := range map[string]string{
		"/%zz": "/%zz", "/%": "/%", "/%4": "/%4", "/%%41%4": "/%A%4", "/%4z%41/%%%": "/%4zA/%%%", "/%41?a=%zz%": "/A",
		"/a?%zz": "/a", "/%c3%A9": "/é",
	} {
		for _, piece := range []int{1, 2, 3, 1000} {
			sent := "GET /a HTTP/1.1\r\nHost: h\r\n\r\n" + "GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n" +
				"GET /b HTTP/1.1\r\nHost: h\r\n\r\n"
			statuses, bodies := answers(t, to, sent, piece)
			got := strings.Join(bodies, "\n")
			if want := "GET /a \"\" tls=false HTTP/1.1\nGET " + want +
				" \"\" tls=false HTTP/1.1\nGET /b \"\" tls=false HTTP/1.1"; got != want {
				t.Errorf("%s, %d bytes at a time: %s\n%s\nwant\n%s", target, piece, statuses, got, want)
			}
		}
	}
}

// TestHostileHeaders: a request with too large a header is not served, and nothing hides in the omitted part.
func TestHostileHeaders(t *testing.T) {
	t.Parallel()
	to := serve(t, nil)
	large, body := "X: "+strings.Repeat("x", 60<<10), "Content-Length: 4\r\n"
	for name, test := range map[string]struct{ header, status string }{
		"a large line":                      {large + "\r\n" + body, "431"},
		"a large line, later":               {body + large + "\r\n", "431"},
		"many lines":                        {strings.Repeat("X: y\r\n", 12<<10) + body, "431"},
		"a large line with a bare return":   {large + "\rContent-Length: 5" + large + "\r\n" + body, "400"},
		"a large line with a bare feed":     {large + "\nContent-Length: 5\r\n", "400"},
		"a large Content-Length":            {"Content-Length:" + strings.Repeat(" ", 60<<10) + "4\r\n", "400"},
		"a large name":                      {strings.Repeat("x", 60<<10) + ": y\r\n" + body, "400"},
		"a space before the colon, no room": {strings.Repeat("X: y\r\n", 12<<10) + "Content-Length : 4\r\n", "400"},
		"a header without end":              {strings.Repeat(large+"\r\n", 20), "400"},
		"a line without end":                {"X: " + strings.Repeat("x", 2<<20), "400"},
		"a mark that is made up":            {"X-Carillon-Cut: yes\r\n" + body, "200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, piece := range []int{7, 1000, 100_000} {
				sent := post + test.header + "\r\nabcd"
				statuses, bodies := answers(t, to, sent+secret, piece)
				if len(statuses) == 0 || statuses[0] != test.status || test.status != "200" && len(statuses) != 1 {
					t.Errorf("%d bytes at a time: answered %s %q, want %s", piece, statuses, bodies, test.status)
				}
			}
		})
	}
}
