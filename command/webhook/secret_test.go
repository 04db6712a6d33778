package webhook

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/eventstore/storetest/must"
)

func mint(tb testing.TB) Secret {
	tb.Helper()
	secret := must.Get(Mint(rand.Reader))(tb)
	return secret
}

func TestSecretRoundTrip(t *testing.T) {
	t.Parallel()
	secret := mint(t)
	full := secret.Reveal()
	if !strings.HasPrefix(full, "whsec_") || len(full) != len("whsec_")+44 {
		t.Errorf("unexpected form, %d characters", len(full))
	}
	again, err := ParseSecret(full)
	if err != nil || again.Reveal() != full {
		t.Errorf("parsing back: %v", err)
	}
	if other := mint(t); other.Reveal() == full {
		t.Error("different secrets are equal")
	}
	if want := "whsec_…" + full[len(full)-4:]; secret.Masked() != want {
		t.Errorf("masked: %s", secret.Masked())
	}
	if zero := (Secret{}); zero.Reveal() != "" || zero.Masked() != "" {
		t.Error("zero secret")
	}
	if _, err := Mint(strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("randomness that ends: %v", err)
	}
	for _, bad := range []string{"", "whsec_", full[6:], "whsec_***", "whsec_c2hvcnQ=",
		"whsec_" + strings.Repeat("AAAA", 22)} {
		if _, err := ParseSecret(bad); !errors.Is(err, ErrSecret) ||
			bad != "" && bad != "whsec_" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	secret := mint(t)
	type holder struct {
		Public  Secret
		private Secret
		list    []Secret
		lookup  map[string]Secret
	}
	held := holder{secret, secret, []Secret{secret}, map[string]Secret{"a": secret}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%w"} {
		for _, value := range []any{secret, &secret, held, &held, []Secret{secret}} {
			_, _ = fmt.Fprintf(&out, verb, value)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "secret", secret, "held", held, "list", held.list, "pointer", &secret)
	}
	marshalled := must.Get(json.Marshal(held))(t)
	out.Write(marshalled)
	out.WriteString(secret.String() + secret.GoString())

	key := secret.bytes()
	spelled := fmt.Sprintf("%d", key)
	for name, leak := range map[string]string{
		"base64": secret.Reveal()[6:], "raw": string(key), "hex": fmt.Sprintf("%x", key), "HEX": fmt.Sprintf("%X", key),
		"numbers": spelled[1 : len(spelled)-1], "tail": secret.Reveal()[40:],
		"quoted": strings.Trim(strconv.Quote(string(key)), `"`),
	} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("the secret is shown as %s", name)
		}
	}
	if !strings.Contains(out.String(), "whsec_…") {
		t.Error("nothing was printed at all")
	}
}

func TestSignVerifies(t *testing.T) {
	t.Parallel()
	now := time.Now()
	old, current := mint(t), mint(t)
	body := []byte(`{"id":"1","data":{"ü":"\u0000"}}`)
	for _, secrets := range [][]Secret{{current}, {current, old}} {
		header := http.Header{}
		header.Set("webhook-id", "0199-a")
		header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		header.Set("webhook-signature", Sign(secrets, "0199-a", now, body))
		for _, secret := range secrets {
			verifier := must.Get(standardwebhooks.NewWebhook(secret.Reveal()))(t)
			if err := verifier.Verify(body, header); err != nil {
				t.Errorf("%d secrets: %v", len(secrets), err)
			}
			if err := verifier.Verify(append(body, ' '), header); err == nil {
				t.Error("a changed body verifies")
			}
			changed := header.Clone()
			changed.Set("webhook-id", "0199-b")
			if err := verifier.Verify(body, changed); err == nil {
				t.Error("a changed id verifies")
			}
		}
		stranger := must.Get(standardwebhooks.NewWebhook(mint(t).Reveal()))(t)
		if err := stranger.Verify(body, header); err == nil {
			t.Error("verifies with another secret")
		}
	}
}

// The example of the Standard Webhooks specification's reference libraries.
func TestSignKnownAnswer(t *testing.T) {
	t.Parallel()
	secret := must.Get(ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))(t)
	got := Sign([]Secret{secret, secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0),
		[]byte(`{"test": 2432232314}`))
	const one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got != one+" "+one {
		t.Errorf("got %s", got)
	}
}
