package config

import (
	"fmt"
	"strings"
	"unicode"
)

// Platforms has the settings of the platforms that sources are collected from. Without its token, a platform's sources
// say that they need credentials.
type Platforms struct {
	FacebookToken    Token  `name:"facebook-token" env:"CARILLON_FACEBOOK_TOKEN" placeholder:"TOKEN" help:"Token of a page or system user, for sources of type facebook."`
	InstagramToken   Token  `name:"instagram-token" env:"CARILLON_INSTAGRAM_TOKEN" placeholder:"TOKEN" help:"Token of a user, for sources of type instagram."`
	InstagramAccount string `name:"instagram-account" env:"CARILLON_INSTAGRAM_ACCOUNT" placeholder:"NUMBER" help:"Number of the Instagram business account that the token is for."`
	TikTokToken      Token  `name:"tiktok-token" env:"CARILLON_TIKTOK_TOKEN" placeholder:"ACCOUNT=TOKEN,…" help:"Tokens of the owners of accounts, for sources of type tiktok."`
	TwitterToken     Token  `name:"twitter-token" env:"CARILLON_TWITTER_TOKEN" placeholder:"TOKEN" help:"Bearer token of an app, for sources of type twitter."`

	// Bases are addresses of APIs by source type, for tests. Empty means those that collectors know.
	Bases map[string]string `kong:"-"`
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

// Validate checks the settings and returns the first that is wrong, as a *Setting.
func (p *Platforms) Validate() error {
	for _, s := range []struct {
		variable string
		token    Token
	}{
		{"CARILLON_FACEBOOK_TOKEN", p.FacebookToken},
		{"CARILLON_INSTAGRAM_TOKEN", p.InstagramToken},
		{tikTokVariable, p.TikTokToken},
		{"CARILLON_TWITTER_TOKEN", p.TwitterToken},
	} {
		if err := checkToken(s.variable, s.token.Reveal()); err != nil {
			return err
		}
	}
	if strings.Trim(p.InstagramAccount, "0123456789") != "" {
		return wrong("CARILLON_INSTAGRAM_ACCOUNT", "must be the account's number, such as 17841405309211844")
	}
	_, err := p.TikTokTokens()
	return err
}

func checkToken(variable, token string) error {
	switch {
	case strings.ContainsFunc(token, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII }):
		return wrong(variable, "holds a line end, a space or another character that no token has: give it as the platform shows it, on one line")
	case strings.Contains(token, ",") && variable != tikTokVariable:
		return wrong(variable, "must be one token; it is a list, or a file of several lines")
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
