package config

import (
	"fmt"
	"strings"
	"unicode"
)

// Platforms has the settings of the platforms that sources are collected from. Without its token, a platform's sources
// say that they need credentials.
type Platforms struct {
	Tokens PlatformTokens `name:"platform-tokens" env:"CARILLON_PLATFORM_TOKENS" placeholder:"PLATFORM=TOKEN,…" help:"Tokens of the platforms that accounts are collected from: facebook=TOKEN, instagram:NUMBER=TOKEN with the number of the token's business account, tiktok:ACCOUNT=TOKEN for each account, twitter=TOKEN. A file has a line for each."`

	// Bases are addresses of APIs by source type, for tests. Empty means those that collectors know.
	Bases map[string]string `kong:"-"`
}

// PlatformTokens is a Secret that lists tokens. It is not trimmed, so that a line end in a token is detected.
type PlatformTokens struct{ Secret }

// UnmarshalText takes any value; Platforms.Validate checks it without repeating it.
func (t *PlatformTokens) UnmarshalText(text []byte) error {
	t.Secret = Secret(text)
	return nil
}

// Credentials are the tokens by platform. An empty token means none.
type Credentials struct {
	Facebook, Twitter           string
	Instagram, InstagramAccount string            // the account's number
	TikTok                      map[string]string // by account in small letters; that by "" is for all others
}

// maxToken is longer than any platform's token, in bytes.
const maxToken = 4096

const tokensVariable = "CARILLON_PLATFORM_TOKENS"

// Validate checks the tokens. It returns a *Setting if one is wrong.
func (p *Platforms) Validate() error {
	_, err := p.Credentials()
	return err
}

// Credentials returns the tokens, or a *Setting if one is wrong. An error never repeats an entry that may be a token.
func (p *Platforms) Credentials() (Credentials, error) {
	c := Credentials{TikTok: map[string]string{}}
	for i, entry := range strings.Split(p.Tokens.Reveal(), ",") {
		if entry == "" {
			continue
		}
		name, token, _ := strings.Cut(entry, "=")
		if err := checkToken(i+1, token); err != nil {
			return c, err
		}
		platform, account, _ := strings.Cut(strings.ToLower(name), ":")
		account = strings.TrimPrefix(account, "@")
		var known string
		switch {
		case platform == "facebook" && account == "":
			known, c.Facebook = c.Facebook, token
		case platform == "twitter" && account == "":
			known, c.Twitter = c.Twitter, token
		case platform == "instagram" && account != "" && strings.Trim(account, "0123456789") == "":
			known, c.Instagram, c.InstagramAccount = c.Instagram, token, account
		case platform == "instagram":
			return c, wrong(tokensVariable, "must have the number of the account that the token of instagram belongs to, "+
				"such as instagram:17841405309211844=TOKEN")
		case platform == "tiktok":
			known, c.TikTok[account] = c.TikTok[account], token
		default:
			return c, wrong(tokensVariable, "must list facebook=TOKEN, instagram:NUMBER=TOKEN, tiktok:ACCOUNT=TOKEN or "+
				"twitter=TOKEN; entry %d is none of them", i+1)
		}
		if known != "" {
			return c, wrong(tokensVariable, "has two tokens for %s", fmt.Sprintf("%.40q", name))
		}
	}
	return c, nil
}

func checkToken(entry int, token string) error {
	switch {
	case token == "":
		return wrong(tokensVariable, "must list entries such as facebook=TOKEN, parted by commas or a line each in a "+
			"file; entry %d has no token", entry)
	case strings.ContainsFunc(token, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII
	}):
		return wrong(tokensVariable, "holds a line end, a space or another character that no token has, in entry %d: give "+
			"the token as the platform shows it, on one line", entry)
	case len(token) > maxToken:
		return wrong(tokensVariable, "is longer than any token in entry %d: give the token alone", entry)
	}
	return nil
}
