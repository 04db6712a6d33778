package config_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/cmd/internal/config"
)

// What can't be right is refused where it is given, with the variable and what to do, and never repeated.
func TestPlatformsAreChecked(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--twitter-token=hunter2\n"}, "CARILLON_TWITTER_TOKEN (--twitter-token) holds a line end"},
		{[]string{"--facebook-token=hunter2 hunter2"}, "CARILLON_FACEBOOK_TOKEN (--facebook-token) holds a line end, a space"},
		{[]string{"--instagram-account=kajhallen"}, "CARILLON_INSTAGRAM_ACCOUNT (--instagram-account) must be the account's number"},
		{[]string{"--twitter-token=hunter2,hunter2"}, "CARILLON_TWITTER_TOKEN (--twitter-token) must be one token"},
		{[]string{"--tiktok-token=a=hunter2,hunter2"}, "CARILLON_TIKTOK_TOKEN (--tiktok-token) must be account=token"},
		{[]string{"--tiktok-token=a=hunter2,A=hunter2"}, `has two tokens for the account "a"`},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error = %v\nwant it to contain %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(variable, text string) {
		path := filepath.Join(dir, variable)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(variable, path)
	}
	file("CARILLON_FACEBOOK_TOKEN_FILE", "hunter2\r\n")
	file("CARILLON_TIKTOK_TOKEN_FILE", "@Kajhallen=hunter2\nother=act.x!=y\n")
	file("CARILLON_ADMIN_TOKEN_FILE", strings.Repeat("hunter2", 5)+"\n")
	c, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := c.TikTokTokens()
	if err != nil || c.FacebookToken.Reveal() != "hunter2" || len(tokens) != 2 || tokens["kajhallen"] != "hunter2" || tokens["other"] != "act.x!=y" {
		t.Errorf("facebook %q, tiktok %v, %v", c.FacebookToken.Reveal(), tokens, err)
	}
	if c.AdminToken.Reveal() != strings.Repeat("hunter2", 5) {
		t.Errorf("admin token %q", c.AdminToken.Reveal())
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c, "token", c.FacebookToken)
	if text := log.String() + fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(text, "hunter2") {
		t.Errorf("a token shows: %s", text)
	}
	if given, err := parse(t, "--facebook-token=other"); err != nil || given.FacebookToken.Reveal() != "other" {
		t.Errorf("a flag before a file: %q, %v", given.FacebookToken.Reveal(), err)
	}
	c, err = parse(t, "--tiktok-token=hunter2")
	if tokens, _ := c.TikTokTokens(); err != nil || tokens[""] != "hunter2" {
		t.Errorf("one token for all: %v, %v", tokens, err)
	}
	var none config.Platforms
	if tokens, err := none.TikTokTokens(); err != nil || len(tokens) > 0 || none.Validate() != nil {
		t.Errorf("without settings: %v, %v", tokens, err)
	}
}

// TestSecretFile_wrong is not parallel: variables belong to the process.
func TestSecretFile_wrong(t *testing.T) {
	const variable = "CARILLON_FACEBOOK_TOKEN_FILE"
	path := filepath.Join(t.TempDir(), "token")
	for want, text := range map[string]string{
		"names an empty file": "\n",
		"must be one token":   "hunter2\nhunter2\n",
		"are both set":        "hunter2\n",
		"can't be read":       "",
	} {
		t.Run(want, func(t *testing.T) {
			t.Setenv(variable, path)
			if want == "are both set" {
				t.Setenv("CARILLON_FACEBOOK_TOKEN", "hunter2")
			}
			if want == "can't be read" {
				t.Setenv(variable, path+"-none")
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := parse(t)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "CARILLON_FACEBOOK_TOKEN") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error = %v, want it to contain %q", err, want)
			}
		})
	}
}

func TestReplacedSettings(t *testing.T) {
	t.Parallel()
	err := config.CheckReplaced([]string{"HOME=/root", "CARILLON_MASTER_KEY_NEXT=hunter2"})
	if err == nil || !strings.Contains(err.Error(), "CARILLON_MASTER_KEY,") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error = %v, want it to name the new variable", err)
	}
	for _, flag := range []string{"--collect-pages", "--facebook-token-file", "--tiktok-url"} {
		if err := config.ReplacedFlag(flag); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if err := config.ReplacedFlag("--http-addr"); err != nil {
		t.Error(err)
	}
}

func TestMasterKeyList(t *testing.T) {
	t.Parallel()
	const current, next = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="
	c, err := parse(t, "--master-key="+current+", "+next)
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := c.ReadMasters(); err != nil || len(keys) != 2 || keys[0][0] != 0 || keys[1][0] != 7 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	for _, bad := range []string{current + ",hunter2", current + "," + next + "," + next, "," + next} {
		if _, err := parse(t, "--master-key="+bad); err == nil || !strings.Contains(err.Error(), "CARILLON_MASTER_KEY (--master-key)") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
