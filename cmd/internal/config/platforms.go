package config

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"unicode"
)

// Platforms has the settings of the platforms that sources are collected from. Without its token, a platform's sources
// say that they need credentials.
type Platforms struct {
	FacebookURL       string `name:"facebook-url" env:"CARILLON_FACEBOOK_URL" default:"https://graph.facebook.com/v26.0" placeholder:"URL" help:"Address of Facebook's Graph API, with its version (${default})."`
	FacebookToken     Token  `name:"facebook-token" env:"CARILLON_FACEBOOK_TOKEN" placeholder:"TOKEN" help:"Token of a page or system user, for sources of type facebook."`
	FacebookTokenFile string `name:"facebook-token-file" env:"CARILLON_FACEBOOK_TOKEN_FILE" placeholder:"FILE" help:"File with the token."`

	InstagramURL       string `name:"instagram-url" env:"CARILLON_INSTAGRAM_URL" default:"https://graph.facebook.com/v26.0" placeholder:"URL" help:"Address of Instagram's Graph API, with its version (${default})."`
	InstagramToken     Token  `name:"instagram-token" env:"CARILLON_INSTAGRAM_TOKEN" placeholder:"TOKEN" help:"Token of a user, for sources of type instagram."`
	InstagramTokenFile string `name:"instagram-token-file" env:"CARILLON_INSTAGRAM_TOKEN_FILE" placeholder:"FILE" help:"File with the token."`
	InstagramAccount   string `name:"instagram-account" env:"CARILLON_INSTAGRAM_ACCOUNT" placeholder:"NUMBER" help:"Number of the Instagram business account that the token is for."`

	TikTokURL       string `name:"tiktok-url" env:"CARILLON_TIKTOK_URL" default:"https://open.tiktokapis.com/v2" placeholder:"URL" help:"Address of TikTok's API, with its version (${default})."`
	TikTokToken     Token  `name:"tiktok-token" env:"CARILLON_TIKTOK_TOKEN" placeholder:"ACCOUNT=TOKEN,…" help:"Tokens of the owners of accounts, for sources of type tiktok."`
	TikTokTokenFile string `name:"tiktok-token-file" env:"CARILLON_TIKTOK_TOKEN_FILE" placeholder:"FILE" help:"File with the tokens, one a line."`

	TwitterURL       string `name:"twitter-url" env:"CARILLON_TWITTER_URL" default:"https://api.x.com/2" placeholder:"URL" help:"Address of X's API, with its version (${default})."`
	TwitterToken     Token  `name:"twitter-token" env:"CARILLON_TWITTER_TOKEN" placeholder:"TOKEN" help:"Bearer token of an app, for sources of type twitter."`
	TwitterTokenFile string `name:"twitter-token-file" env:"CARILLON_TWITTER_TOKEN_FILE" placeholder:"FILE" help:"File with the token."`
}

// Token is a Secret that is taken as it is given, so that a line end in it is found and not guessed at.
type Token struct{ Secret }

// UnmarshalText takes any value; Platforms.Validate checks it without repeating it.
func (t *Token) UnmarshalText(text []byte) error {
	t.Secret = Secret(text)
	return nil
}

// longestToken is longer than any token that a platform gives.
const longestToken = 4096

// Validate checks the settings, reads the files that hold tokens, and returns what is wrong first, as a *Setting.
func (p *Platforms) Validate() error {
	for _, s := range []struct {
		platform, url string
		token         *Token
		file          *string
	}{
		{"FACEBOOK", p.FacebookURL, &p.FacebookToken, &p.FacebookTokenFile},
		{"INSTAGRAM", p.InstagramURL, &p.InstagramToken, &p.InstagramTokenFile},
		{"TIKTOK", p.TikTokURL, &p.TikTokToken, &p.TikTokTokenFile},
		{"TWITTER", p.TwitterURL, &p.TwitterToken, &p.TwitterTokenFile},
	} {
		variable := "CARILLON_" + s.platform + "_TOKEN"
		if err := checkBase("CARILLON_"+s.platform+"_URL", s.url); err != nil {
			return err
		}
		if err := fromFile(variable, s.token, s.file); err != nil {
			return err
		}
		if err := checkToken(variable, s.token.Reveal()); err != nil {
			return err
		}
	}
	if strings.Trim(p.InstagramAccount, "0123456789") != "" {
		return wrong("CARILLON_INSTAGRAM_ACCOUNT", "must be the account's number, such as 17841405309211844")
	}
	_, err := p.TikTokTokens()
	return err
}

// checkBase refuses what is no address of an API. An address that holds a password is not repeated.
func checkBase(variable, address string) error {
	if address == "" {
		return nil // the default
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !isPort(u.Port()) {
		return wrong(variable, "must be an address such as https://graph.example.org/v1, without user name, password and parameters")
	}
	return nil
}

// isPort says that an address can have a port; "" is the scheme's.
func isPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// fromFile takes a token from its file. Files end with a line end, which is no part of the token.
func fromFile(variable string, token *Token, file *string) error {
	if *file == "" {
		return nil
	}
	if token.Secret != "" {
		return wrong(variable, "and %s_FILE are both set: give one of them", variable)
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return wrong(variable+"_FILE", "can't be read: %v", err)
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return wrong(variable+"_FILE", "names an empty file: %s", *file)
	}
	if len(lines) > 1 && variable != tikTokVariable {
		return wrong(variable+"_FILE", "names a file of several lines; it must hold the token alone: %s", *file)
	}
	for i := range lines {
		lines[i] = strings.TrimSuffix(strings.TrimSpace(lines[i]), ",")
	}
	token.Secret, *file = Secret(strings.Join(lines, ",")), ""
	return nil
}

func checkToken(variable, token string) error {
	switch {
	case strings.ContainsFunc(token, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII }):
		return wrong(variable, "holds a line end, a space or another character that no token has: give it as the platform shows it, on one line")
	case len(token) > longestToken && variable != tikTokVariable:
		return wrong(variable, "is longer than any token: give the token alone")
	}
	return nil
}

const tikTokVariable = "CARILLON_TIKTOK_TOKEN"

// TikTokTokens are the tokens by account, in small letters. A single token without an account is by "".
func (p *Platforms) TikTokTokens() (map[string]string, error) {
	tokens := map[string]string{}
	entries := strings.Split(p.TikTokToken.Reveal(), ",")
	for i, entry := range entries {
		account, token, named := strings.Cut(entry, "=")
		switch {
		case entry == "":
			continue
		case !named && len(entries) == 1:
			account, token = "", entry
		case !named || token == "" || strings.TrimPrefix(account, "@") == "":
			return nil, wrong(tikTokVariable, "must be account=token for each account, parted by commas; entry %d is not", i+1)
		}
		account = strings.ToLower(strings.TrimPrefix(account, "@"))
		if tokens[account] != "" {
			return nil, wrong(tikTokVariable, "has two tokens for the account %s", fmt.Sprintf("%.40q", account))
		}
		tokens[account] = token
	}
	return tokens, nil
}
