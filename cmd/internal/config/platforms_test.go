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
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--facebook-url=graph.facebook.com"}, "CARILLON_FACEBOOK_URL (--facebook-url) must be an address such as"},
		{[]string{"--instagram-url=ftp://graph.example"}, "CARILLON_INSTAGRAM_URL (--instagram-url) must be"},
		{[]string{"--tiktok-url=https://u:hunter2@tiktok.example"}, "CARILLON_TIKTOK_URL (--tiktok-url) must be"},
		{[]string{"--twitter-url=https://x.example/?token=hunter2"}, "CARILLON_TWITTER_URL (--twitter-url) must be"},
		{[]string{"--twitter-url=https://x.example:99999/2"}, "CARILLON_TWITTER_URL (--twitter-url) must be"},
		{[]string{"--facebook-url=https://graph.example\n"}, "CARILLON_FACEBOOK_URL (--facebook-url) must be"},
		{[]string{"--twitter-token=hunter2\n"}, "CARILLON_TWITTER_TOKEN (--twitter-token) holds a line end"},
		{[]string{"--facebook-token=hunter2 hunter2"}, "CARILLON_FACEBOOK_TOKEN (--facebook-token) holds a line end, a space"},
		{[]string{"--instagram-account=kajhallen"}, "CARILLON_INSTAGRAM_ACCOUNT (--instagram-account) must be the account's number"},
		{[]string{"--facebook-token=hunter2", "--facebook-token-file=" + file("one", "hunter2\n")}, "CARILLON_FACEBOOK_TOKEN_FILE are both set"},
		{[]string{"--facebook-token-file=" + filepath.Join(dir, "none")}, "CARILLON_FACEBOOK_TOKEN_FILE (--facebook-token-file) can't be read"},
		{[]string{"--facebook-token-file=" + file("empty", "\n")}, "names an empty file"},
		{[]string{"--twitter-token-file=" + file("two", "hunter2\nhunter2\n")}, "must hold the token alone"},
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

func TestTokensFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, several := filepath.Join(dir, "one"), filepath.Join(dir, "several")
	for path, text := range map[string]string{one: "hunter2\r\n", several: "@Kajhallen=hunter2\nother=act.x!=y\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := parse(t, "--facebook-token-file="+one, "--tiktok-token-file="+several)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := c.TikTokTokens()
	if err != nil || c.FacebookToken.Reveal() != "hunter2" || len(tokens) != 2 || tokens["kajhallen"] != "hunter2" || tokens["other"] != "act.x!=y" {
		t.Errorf("facebook %q, tiktok %v, %v", c.FacebookToken.Reveal(), tokens, err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c, "token", c.FacebookToken)
	if text := log.String() + fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(text, "hunter2") {
		t.Errorf("a token shows: %s", text)
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
