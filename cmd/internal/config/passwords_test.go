package config_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// punctuation has every character of ASCII that is neither letter nor digit and can be in an address.
const punctuation = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// A password in an address is read as it is meant, or refused with a remedy; nothing of it shows.
func TestPasswordInAddress(t *testing.T) {
	t.Parallel()
	for _, c := range punctuation {
		for _, start := range []string{"hunt", "12", "1@hunt"} {
			password := start + string(c) + "zwo"
			address := "postgres://carillon:" + password + "@localhost:5432/carillon"
			read, err := parse(t, "--database-url", address)
			if err == nil {
				err = read.Validate()
			}
			shown := read.DatabaseURL.String()
			if err != nil {
				shown += err.Error()
				assert.True(t, strings.Contains(err.Error(), "%40") && strings.Contains(err.Error(), "CARILLON_DATABASE_PASSWORD"),
					"%s: %v", password, err)
			} else if known, err := pgconn.ParseConfig(address); err != nil || known.Password != password ||
				known.Host != "localhost" {
				t.Errorf("%s was taken, and means %q at %q, %v", password, known.Password, known.Host, err)
			}
			assert.True(t, !strings.Contains(shown, "hunt") && !strings.Contains(shown, "zwo") && !strings.Contains(shown, "12"),
				"%s shows: %s", password, shown)
		}
	}
}

// A password of its own is any text, for Postgres and for the event store, and a file may have it.
func TestPasswordOfItsOwn(t *testing.T) {
	t.Parallel()
	harmless := regexp.MustCompile(`^[\w.~%-]+$`)
	for _, c := range punctuation {
		password := "hunt" + string(c) + "zwo"
		read, err := parse(t, "--database-url", "postgres://carillon@db:5432/carillon?sslmode=disable",
			"--database-direct-url", "postgres://carillon@direct:5432,other:5432/carillon", "--database-password", password,
			"--eventstore-url", "esdb://admin@n1:2113?tls=true", "--eventstore-password", password)
		if err == nil {
			err = read.Validate()
		}
		if err != nil {
			t.Errorf("%s: %v", password, err)
			continue
		}
		for _, address := range []string{read.DatabaseURL.Reveal(), read.DatabaseDirectURL.Reveal()} {
			known, err := pgconn.ParseConfig(address)
			assert.True(t, err == nil && known.Password == password && known.User == "carillon" && known.Database == "carillon",
				"%s: %+v, %v", password, known, err)
		}
		store := must.Get(url.Parse(read.EventStoreURL.Reveal()))(t)
		_, raw, _ := strings.Cut(read.EventStoreURL.Reveal(), "admin:")
		raw, _, _ = strings.Cut(raw, "@")
		if got, _ := store.User.Password(); got != password || store.Host != "n1:2113" || !harmless.MatchString(raw) {
			t.Errorf("%s: %s", password, store.Redacted())
		}
	}
	for name, address := range map[string]string{
		"a user": "postgres://db:5432/carillon", "two passwords": "postgres://carillon:x@db:5432/carillon",
	} {
		read, err := parse(t, "--database-url", address, "--database-password", "hunter2")
		if err == nil {
			err = read.Validate()
		}
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), "CARILLON_DATABASE_PASSWORD (--database-password) needs"),
			"%s: %v", name, err)
	}
}

func TestComposeHasPasswordsApart(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "deploy", "compose.yaml")))(t)
	if found := regexp.MustCompile(`://\w*:\$\{`).Find(text); found != nil {
		t.Errorf("compose.yaml puts a password into an address: %s", found)
	}
	secrets := regexp.MustCompile(`\$\{\w*(?:PASSWORD|KEY|TOKEN)\w*(:?[-=?])?([^}]*)\}`)
	for _, value := range secrets.FindAllSubmatch(text, -1) {
		if string(value[1]) != ":?" && string(value[1])+string(value[2]) != ":-" {
			t.Errorf("compose.yaml starts with a known secret in place of %s", value[0])
		}
	}
}

func TestBaseURL_schemes(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:8080":            "http://127.0.0.1:8080",
		"localhost:8080":            "http://localhost:8080",
		":8080":                     "http://127.0.0.1:8080",
		"0.0.0.0:8080":              "http://127.0.0.1:8080",
		"http://127.0.0.1:8080/":    "http://127.0.0.1:8080",
		"carillon.example:443":      "https://carillon.example:443",
		"https://carillon.example/": "https://carillon.example",
		"http://carillon.example:8": "",
		"carillon.example":          "",
	} {
		settings := config.API{HTTPAddr: address}
		got, err := settings.BaseURL()
		assert.True(t, got == want && (err == nil) == (want != ""), "%q: %q, %v; want %q", address, got, err, want)
	}
	for address, want := range map[string]bool{
		"[::1]:80":                 true,
		"https://127.0.0.1":        true,
		"https://carillon.example": false,
		"10.0.0.1:80":              false,
	} {
		settings := config.API{HTTPAddr: address}
		assert.Equal(t, settings.OnThisMachine(), want, "%q is on this machine", address)
	}
}
