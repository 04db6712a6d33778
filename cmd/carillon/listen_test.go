package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command/credential"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// heard is a line of carillon listen --json.
type heard struct {
	ID, EventID, Type, Subject, Body, By string
	Verified                             bool
	Answered                             int
	Headers                              map[string]string
}

// listening is a carillon listen that runs in this process.
type listening struct {
	shell

	lines     *bufio.Scanner
	beginning string          // of the notes
	id        string          // of the destination: another test may take its name as soon as it is free
	said      *apitest.Buffer // the notes after that
	stop      func() (code int, notes string)
	ended     func() (code int, notes string) // by itself
}

func (s shell) api() []string {
	return []string{"--data-dir", s.server[1], "--http-addr", s.app.APIAddr().String()}
}

// places are as many as one user's listeners may be at a server: a test that begins another one waits for its turn.
var places = make(chan struct{}, 4)

// listen starts carillon listen, and waits until it has its destination. It ends with the test at the latest.
func (s shell) listen(args ...string) listening {
	s.Helper()
	places <- struct{}{}
	out, printed := io.Pipe()
	notes, noted := io.Pipe()
	ctx, cancel := context.WithCancel(s.Context())
	exited := make(chan int, 1)
	go func() {
		t := terminal{in: strings.NewReader(""), out: printed, err: noted}
		exited <- run(ctx, append(append([]string{"listen", "--json"}, s.api()...), args...), t)
		_ = printed.Close()
		_ = noted.Close()
		<-places
	}()
	beginning := readUntil(notes, "Ctrl-C")
	said, all := &apitest.Buffer{}, make(chan struct{})
	go func() {
		_, _ = io.Copy(said, notes)
		close(all)
	}()
	ended := sync.OnceValues(func() (int, string) {
		go func() { _, _ = io.Copy(io.Discard, out) }() // webhooks of other tests, which it may be about to print
		<-all
		return <-exited, beginning + said.String()
	})
	stop := func() (int, string) {
		cancel()
		return ended()
	}
	s.Cleanup(func() { stop() })
	_, name, found := strings.Cut(beginning, "as the destination ")
	if !found {
		code, notes := stop()
		s.Fatalf("carillon listen %v: exit %d\n%s", args, code, notes)
	}
	name, _, _ = strings.Cut(name, ".\n")
	var taken struct {
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	shown := s.ask(http.MethodGet, "/events/destinations/"+name, http.StatusOK)
	err := json.Unmarshal([]byte(shown), &taken)
	must.True(s, err == nil && taken.Data.ID != "", "the destination is %s: %v", shown, err)
	return listening{s, bufio.NewScanner(out), beginning, taken.Data.ID, said, stop, ended}
}

// listenSecret asks for the secret alone.
func (s shell) listenSecret() string {
	s.Helper()
	return strings.TrimSpace(prints(s.T, "whsec_", append([]string{"listen", "--print-secret"}, s.api()...)...))
}

// readUntil reads lines to the first that begins with a word.
func readUntil(from io.Reader, word string) string {
	var read strings.Builder
	for b := make([]byte, 1); !strings.Contains(read.String(), "\n"+word) || b[0] != '\n'; {
		if _, err := from.Read(b); err != nil {
			break
		}
		read.WriteByte(b[0])
	}
	return read.String()
}

// next waits for the next webhook about a subject.
func (l listening) next(subject string) (got heard) {
	l.Helper()
	for l.lines.Scan() {
		got = heard{}
		if err := json.Unmarshal(l.lines.Bytes(), &got, json.MatchCaseInsensitiveNames(true)); err != nil {
			l.Fatalf("%s: %v", l.lines.Text(), err)
		}
		if got.Subject == subject {
			return got
		}
	}
	l.Fatalf("listen ended: %v", l.lines.Err())
	return got
}

func (s shell) destinations() string {
	s.Helper()
	return s.ask(http.MethodGet, "/events/destinations?limit=100", http.StatusOK)
}

// ask sends a request with the development key.
func (s shell) ask(method, path string, want int) string {
	s.Helper()
	return s.send(method, path, "", want)
}

// send is ask with a body.
func (s shell) send(method, path, body string, want int) string {
	s.Helper()
	key := must.Get(s.app.DevelopmentKey(s.Context()))(s)
	return ask(s.T, key, method, "http://"+s.app.APIAddr().String()+path, body, want)
}

// TestListenForwardsByteForByte takes webhooks at a port, and from a stream where the server could reach none.
func TestListenForwardsByteForByte(t *testing.T) {
	t.Parallel()
	s := open(t)
	type request struct {
		header http.Header
		body   string
	}
	for _, flags := range [][]string{{"--types", "news.*"}, {"--types", "news.*", "--stream"}} {
		var passed sync.Map // requests by webhook-id: other tests publish to the same organization
		to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			passed.Store(r.Header.Get("webhook-id"), request{r.Header, string(body)})
			w.WriteHeader(http.StatusMultiStatus)
			_, _ = io.WriteString(w, "taken")
		}))
		t.Cleanup(to.Close)
		l := s.listen(append(flags, "--forward", to.URL+"/hooks", "--fail", "1")...)
		subject := uuid.NewString()
		s.ok("trigger", "research.status.changed", "--subject", subject)
		s.ok("trigger", "news.item.added", "--subject", subject, "--data", `{"title":"Grüße <&>"}`)
		refused := l.next(subject)
		_, early := passed.Load(refused.ID)
		assert.True(t, !early && refused.Verified && refused.Answered == http.StatusInternalServerError,
			"the first: %+v", refused)
		s.ask(http.MethodPost, "/events/deliveries/"+refused.ID+"/replay", http.StatusAccepted)
		got := l.next(subject)
		found, _ := passed.Load(got.ID)
		forwarded, is := found.(request)
		if header := forwarded.header; !is || !got.Verified || got.Type != "news.item.added" || got.ID != refused.ID ||
			got.Answered != http.StatusMultiStatus || got.Body != forwarded.body ||
			!strings.Contains(got.Body, "Grüße <&>") || header.Get("user-agent") != got.Headers["user-agent"] ||
			got.Headers["webhook-signature"] != header.Get("webhook-signature") {
			t.Errorf("heard %+v; forwarded %v, %s", got, header, forwarded.body)
		}
		must.Eventually(t, "the answers are on record", func() bool {
			detail := s.ask(http.MethodGet, "/events/deliveries/"+got.ID, http.StatusOK)
			return strings.Contains(detail, `"responseBody":"taken"`) && strings.Contains(detail, `"responseStatus":500`)
		})
		code, notes := l.stop()
		assert.True(t, code == 0 && strings.Contains(notes, s.listenSecret()+"\n"), "after Ctrl-C: exit %d %s", code, notes)
		s.ask(http.MethodGet, "/events/destinations/"+l.id, http.StatusNotFound)
	}
}

// TestListenExampleFindsServer pastes the line that the server prints, and then the one that the listener prints.
func TestListenExampleFindsServer(t *testing.T) {
	t.Parallel()
	s := open(t)
	var welcome bytes.Buffer
	must.OK(t, s.app.Welcome(t.Context(), &welcome))
	_, command, _ := strings.Cut(welcome.String(), " listen ")
	command, _, _ = strings.Cut(command, "\n")
	l := s.listen(strings.Fields(command)...)
	_, command, _ = strings.Cut(l.beginning, "carillon trigger ")
	command, _, _ = strings.Cut(command, "\n")
	subject := uuid.NewString()
	args := append([]string{"trigger", "--subject", subject}, strings.Fields(command)...)
	prints(t, "", args...)
	assert.Equal(t, l.next(subject).Type, "news.item.added", "heard")
	l.stop()
	dir := t.TempDir()
	developers := credential.New(credential.APIKey).Reveal()
	must.OK(t, dev.KeepKey(dir, developers))
	at := func(address, key string) string {
		c := listenCommand{AdminAddr: "127.0.0.1:8081"}
		c.HTTPAddr, c.APIKey, c.DataDir = address, config.Secret(key), dir
		return c.example()
	}
	const local = "127.0.0.1:8080"
	assert.Equal(t, at(local, ""), "carillon trigger news.item.added --data-dir "+dir, "at the default address")
	got := at("localhost:9090", "")
	assert.True(t, strings.HasSuffix(got, " --admin-addr HOST:PORT"), "at another address: %s", got)
	var publisher triggerCommand
	publisher.DataDir, publisher.AdminAddr, publisher.HTTPAddr = "./data", "127.0.0.1:9091", "127.0.0.1:9090"
	assert.Equal(t, publisher.show("ID"), "carillon events show ID --http-addr 127.0.0.1:9090", "after trigger")
	for address, key := range map[string]string{local: "ck_of_others", "https://carillon.example": developers} {
		assert.Equal(t, at(address, key), "", "at %s with %s", address, key)
	}
}

func TestListenRefusesFirstAttempts(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(c *config.Config) { c.DeliveryRetrySchedule = []time.Duration{time.Hour} })
	// Not all types: the server disables a destination that refuses a hundred events of another test.
	l := s.listen("--types", "news.*", "--fail", "1", "--status", "503", "--delay", "1ms", "--retry-after", "100ms")
	subject := uuid.NewString()
	s.ok("trigger", "news.item.added", "--subject", subject)
	got := l.next(subject)
	assert.True(t, got.Answered == http.StatusServiceUnavailable && got.By == "--fail", "the first: %+v", got)
	if again := l.next(subject); again.Answered != http.StatusNoContent || again.ID != got.ID || !again.Verified {
		t.Errorf("the second: %+v", again)
	}
	l.stop()
}

func TestListenRefusesBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fails(t, 1, "carillon serve --dev", "listen", "--data-dir", dir)
	s := open(t)
	places <- struct{}{}
	defer func() { <-places }()
	types := append([]string{"listen", "--types", "news.items"}, s.api()...)
	fails(t, 1, "news.items", types...)
	other := openWith(t, func(*config.Config) {}) // which trusts no certificate from the first one's directory
	fails(t, 1, "can't reach this program", "listen", "--data-dir", s.server[1], "--http-addr",
		other.app.APIAddr().String(), "--key", must.Get(other.app.DevelopmentKey(t.Context()))(t))
}
