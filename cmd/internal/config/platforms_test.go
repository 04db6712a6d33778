package config_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Invalid values are refused with the variable and the remedy, and never repeated.
func TestPlatformsAreChecked(t *testing.T) {
	t.Parallel()
	tests := []struct{ tokens, want string }{
		{"twitter=hunter2\n", "CARILLON_PLATFORM_TOKENS (--platform-tokens) holds a line end"},
		{"facebook=hunter2 hunter2", "holds a line end, a space"},
		{"facebook=" + strings.Repeat("hunter2", 600), "is longer than any token in entry 1"},
		{"instagram:kajhallen=hunter2", "must have the number of the account"},
		{"instagram=hunter2", "must have the number of the account"},
		{"twitter=hunter2,hunter2", "entry 2 has no token"},
		{"hunter2=hunter2", "entry 1 is none of them"},
		{"twitter=hunter2,twitter=hunter2", `has two tokens for "twitter"`},
		{"tiktok:a=hunter2,tiktok:@A=hunter2", `has two tokens for "tiktok:@A"`},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, "--platform-tokens="+tt.tokens)
			must.True(t, err != nil && strings.Contains(err.Error(), tt.want), "error = %v\nwant it to contain %q", err, tt.want)
			assert.True(t, !strings.Contains(err.Error(), "hunter2"), "the error shows a secret: %v", err)
		})
	}
}

func TestSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(variable, text string) {
		path := filepath.Join(dir, variable)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		t.Setenv(variable, path)
	}
	file("CARILLON_PLATFORM_TOKENS_FILE", "facebook=hunter2\r\ntiktok:@Kajhallen=hunter2\ntiktok:other=act.x!=y\n"+
		"instagram:17841405309211844=EAA,\n")
	file("CARILLON_ADMIN_TOKEN_FILE", "\uFEFF"+strings.Repeat("hunter2", 5)+"\n")
	file("CARILLON_OPERATOR_WEBHOOK_SECRET_FILE", "whsec_,\n")
	c, err := parse(t)
	if got := c.OperatorWebhookSecret.Reveal(); err == nil || !strings.HasPrefix(err.Error(), "CARILLON_OPERATOR") ||
		got != "whsec_," {
		t.Errorf("a comma at the end: %q, %v", got, err)
	}
	t.Setenv("CARILLON_OPERATOR_WEBHOOK_SECRET_FILE", "")
	c = must.Get(parse(t))(t)
	got, err := c.Credentials()
	want := config.Credentials{
		Facebook:         "hunter2",
		Instagram:        "EAA",
		InstagramAccount: "17841405309211844",
		TikTok:           map[string]string{"kajhallen": "hunter2", "other": "act.x!=y"},
	}
	assert.True(t, err == nil && reflect.DeepEqual(got, want), "credentials %v, %v, want %v", got, err, want)
	assert.Equal(t, c.AdminToken.Reveal(), strings.Repeat("hunter2", 5), "admin token")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c, "tokens", c.Tokens)
	if text := log.String() + fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(text, "hunter2") {
		t.Errorf("a token shows: %s", text)
	}
	c, err = parse(t, "--platform-tokens=tiktok=hunter2")
	if got, _ := c.Credentials(); err != nil || got.TikTok[""] != "hunter2" || got.Facebook != "" {
		t.Errorf("a flag before a file, one token for all accounts: %v, %v", got, err)
	}
	var none config.Platforms
	if got, err := none.Credentials(); err != nil || len(got.TikTok) > 0 || got.Twitter != "" {
		t.Errorf("without settings: %v, %v", got, err)
	}
}

// TestSecretFile_wrong is not parallel: variables belong to the process.
func TestSecretFile_wrong(t *testing.T) {
	const variable = "CARILLON_PLATFORM_TOKENS_FILE"
	path := filepath.Join(t.TempDir(), "token")
	for want, text := range map[string]string{
		"names an empty file":  "\n",
		"entry 2 has no token": "facebook=hunter2\nhunter2\n",
		"are both set":         "facebook=hunter2\n",
		"can't be read":        "",
	} {
		t.Run(want, func(t *testing.T) {
			t.Setenv(variable, path)
			if want == "are both set" {
				t.Setenv("CARILLON_PLATFORM_TOKENS", "facebook=hunter2")
			}
			if want == "can't be read" {
				t.Setenv(variable, path+"-none")
			}
			must.OK(t, os.WriteFile(path, []byte(text), 0o600))
			_, err := parse(t)
			assert.True(t, err != nil && strings.Contains(err.Error(), want) &&
				strings.Contains(err.Error(), "CARILLON_PLATFORM_TOKENS") && !strings.Contains(err.Error(), "hunter2"),
				"error = %v, want it to contain %q", err, want)
		})
	}
}

func TestReplacedSettings(t *testing.T) {
	t.Parallel()
	err := config.CheckReplaced([]string{"HOME=/root", "CARILLON_MASTER_KEY_NEXT=hunter2"})
	assert.True(t, err != nil && strings.Contains(err.Error(), "CARILLON_MASTER_KEY,") &&
		!strings.Contains(err.Error(), "hunter2"), "error = %v, want it to name the new variable", err)
	for _, flag := range []string{"--collect-pages", "--facebook-token", "--tiktok-token-file", "--admin-token-file",
		"--instagram-account"} {
		err := config.ReplacedFlag(flag)
		assert.True(t, err != nil && strings.Contains(err.Error(), flag), "%s: %v", flag, err)
	}
	must.OK(t, config.ReplacedFlag("--http-addr"))
}

func TestMasterKeyList(t *testing.T) {
	t.Parallel()
	const current, next = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="
	c := must.Get(parse(t, "--master-key="+current+", "+next))(t)
	if keys, err := c.ReadMasters(); err != nil || len(keys) != 2 || keys[0][0] != 0 || keys[1][0] != 7 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	for _, bad := range []string{current + ",hunter2", current + "," + next + "," + next, "," + next} {
		_, err := parse(t, "--master-key="+bad)
		assert.True(t, err != nil && strings.Contains(err.Error(), "CARILLON_MASTER_KEY (--master-key)"), "%q: %v", bad, err)
	}
}

func TestContact(t *testing.T) {
	t.Parallel()
	for contact, want := range map[string]string{
		"https://example.org/about-our-events": "https://example.org/about-our-events",
		"http://example.org":                   "http://example.org",
		"events@example.org":                   "mailto:events@example.org",
		"mailto:events@example.org":            "mailto:events@example.org",
	} {
		if got := config.ContactURL(contact); got != want || config.CheckContact(contact) != nil {
			t.Errorf("%q becomes %q, %v, want %q", contact, got, config.CheckContact(contact), want)
		}
	}
	for _, contact := range []string{
		"example.org", "ftp://example.org/", "https://", "https://me:secret@example.org/", "https://example.org/a)b",
		"https://example.org/\r\nX-Evil: 1",
		"https://exämple.org/", "Ann <ann@example.org>", "ann@", "@", " ", "mailto:", "https://example.org/" +
			strings.Repeat("x", 255), "javascript:alert(1)",
	} {
		_, err := parse(t, "--collect-contact", contact)
		assert.True(t, err != nil &&
			strings.Contains(err.Error(), "CARILLON_COLLECT_CONTACT (--collect-contact) must be the URL of a page") &&
			!strings.Contains(err.Error(), "secret"), "%q: %v", contact, err)
	}
	must.OK(t, config.CheckContact(""))
}
