package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const receiverSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

// receiver is a program of docs/use/webhooks.md.
type receiver struct {
	language string // of its block
	file     string
	program  []string // that runs it
}

var receivers = []receiver{
	{"go", "receiver.go", []string{"sh", "-c", "go build -o receiver receiver.go && exec ./receiver"}},
	{"js", "receiver.mjs", []string{"node", "receiver.mjs"}},
	{"python", "receiver.py", []string{"python3", "receiver.py"}},
	{"java", "Receiver.java", []string{"java", "Receiver.java"}},
	{"php", "receiver.php", []string{"php", "-S", "localhost:3000", "receiver.php"}},
}

// TestReceiversVerify starts each receiver of the page as it stands, but for its port.
func TestReceiversVerify(t *testing.T) {
	t.Parallel()
	page := pages(t)["docs/use/webhooks.md"]
	for i, r := range receivers {
		t.Run(r.language, func(t *testing.T) {
			t.Parallel()
			needed := r.program[0]
			if needed == "sh" {
				needed = r.language
			}
			if _, err := exec.LookPath(needed); err != nil {
				t.Skipf("%s is not here", needed)
			}
			block := regexp.MustCompile("(?s)```" + r.language + "\n(.*?)```").FindStringSubmatch(page)
			must.True(t, block != nil, "the page has no such receiver")
			url := r.start(t, block[1], receiverPort+i)
			body := []byte(`{"type":"news.item.added","data":{"title":"Grüße"}}`)
			now := time.Now()
			for _, sent := range []struct {
				what      string
				signature string
				at        time.Time
				want      int
			}{
				{"genuine", signature(t, body, now), now, http.StatusNoContent},
				{"two secrets", "v1,AAAA " + signature(t, body, now), now, http.StatusNoContent},
				{"another body", signature(t, []byte("{}"), now), now, http.StatusUnauthorized},
				{"old", signature(t, body, now.Add(-time.Hour)), now.Add(-time.Hour), http.StatusUnauthorized},
				{"unsigned", "", now, http.StatusUnauthorized},
			} {
				assert.Equal(t, post(t, url, body, sent.signature, sent.at), sent.want, "%s", sent.what)
			}
		})
	}
}

// receiverPort is the first of the receivers' ports, below those that the system gives to all who ask for a free one.
var receiverPort = 20_000 + os.Getpid()%12_000/len(receivers)*len(receivers)

// start runs the program until the end of the test, and waits until it listens.
func (r receiver) start(t *testing.T, source string, number int) (url string) {
	t.Helper()
	port, dir := strconv.Itoa(number), t.TempDir()
	source = strings.ReplaceAll(source, "3000", port)
	must.OK(t, os.WriteFile(filepath.Join(dir, r.file), []byte(source), 0o600))
	arguments := strings.Split(strings.ReplaceAll(strings.Join(r.program, "\x00"), "3000", port), "\x00")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), arguments[0], arguments[1:]...) //nolint:gosec // ours
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+receiverSecret)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var dialer net.Dialer
	must.Eventually(t, "the receiver listens", func() bool {
		conn, err := dialer.DialContext(t.Context(), "tcp", "localhost:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://localhost:" + port + "/hooks"
}

func signature(t *testing.T, body []byte, at time.Time) string {
	t.Helper()
	signer := must.Get(standardwebhooks.NewWebhook(receiverSecret))(t)
	signed := must.Get(signer.Sign("msg_1", at, body))(t)
	return signed
}

func post(t *testing.T, url string, body []byte, signature string, at time.Time) (status int) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body))))(t)
	request.Header.Set("webhook-id", "msg_1")
	request.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	request.Header.Set("webhook-signature", signature)
	status, _ = apitest.Ask(t, http.DefaultClient, request)
	return status
}
