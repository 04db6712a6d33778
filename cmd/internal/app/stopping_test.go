package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/config"
)

// Whoever sends a body of events that has no end gets an answer when the process stops: how many of them are recorded. It
// is not waited for.
func TestABodyWithoutEndIsAnsweredAtTheStop(t *testing.T) {
	p := start(t, nil)
	token, err := (&config.Client{DataDir: p.cfg.DataDir}).Token()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", p.app.AdminAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	const events = 3
	sent := fmt.Sprintf("POST /admin/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n", token)
	for range events {
		line := event(organization)
		sent += fmt.Sprintf("%x\r\n%s\n\r\n", len(line)+1, line)
	}
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	published := func() (n int) {
		if err := p.app.Queries.Pool.QueryRow(t.Context(), "SELECT count(*) FROM publications.publications").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for deadline := time.Now().Add(patience); published() < events; <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first lines are not recorded")
		}
	}
	p.close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), fmt.Sprintf("%d events were published", events)) {
		t.Errorf("answered %d %s (%v)", answer.StatusCode, text, err)
	}
}
