package config

import "strings"

// replaced has what to do instead of settings that are gone. It stays for one release.
var replaced = map[string]string{ //nolint:gosec // names of variables
	"CARILLON_MASTER_KEY_NEXT": "is gone: list both keys in CARILLON_MASTER_KEY, the one in use, a comma, " +
		"and the next one",
	"CARILLON_COLLECT_PARALLEL": "is gone: remove it; a process sends 64 requests at a time, and more processes with " +
		"the role collect send more",
	"CARILLON_COLLECT_PAGES": "is gone: remove it; a visit yields to other sources after 500 pages",
	"CARILLON_FACEBOOK_URL":  platformAddressGone,
	"CARILLON_INSTAGRAM_URL": platformAddressGone,
	"CARILLON_TIKTOK_URL":    platformAddressGone,
	"CARILLON_TWITTER_URL":   platformAddressGone,

	"CARILLON_FACEBOOK_TOKEN":  "is gone: list facebook=TOKEN in CARILLON_PLATFORM_TOKENS",
	"CARILLON_INSTAGRAM_TOKEN": instagramTokenGone,
	"CARILLON_TIKTOK_TOKEN":    "is gone: list tiktok:ACCOUNT=TOKEN for each account in CARILLON_PLATFORM_TOKENS",
	"CARILLON_TWITTER_TOKEN":   "is gone: list twitter=TOKEN in CARILLON_PLATFORM_TOKENS",

	"CARILLON_FACEBOOK_TOKEN_FILE":  tokenFileGone,
	"CARILLON_INSTAGRAM_TOKEN_FILE": tokenFileGone,
	"CARILLON_TIKTOK_TOKEN_FILE":    tokenFileGone,
	"CARILLON_TWITTER_TOKEN_FILE":   tokenFileGone,
	"CARILLON_INSTAGRAM_ACCOUNT":    instagramTokenGone,
}

const (
	instagramTokenGone = "is gone: list instagram:NUMBER=TOKEN with the number of the account in " + tokensVariable
	tokenFileGone      = "is gone: CARILLON_PLATFORM_TOKENS_FILE names one file with a line for each token, such as " +
		"facebook=TOKEN, instagram:NUMBER=TOKEN, tiktok:ACCOUNT=TOKEN, twitter=TOKEN"
)

const platformAddressGone = "is gone: remove it; each version of Carillon knows the address and version of the " +
	"platform's API"

// CheckReplaced returns a *Setting if the environment has a variable that is gone.
func CheckReplaced(environ []string) error {
	for _, entry := range environ {
		variable, _, _ := strings.Cut(entry, "=")
		if issue := replaced[variable]; issue != "" {
			return &Setting{Variable: variable, Issue: issue}
		}
	}
	return nil
}

// ReplacedFlag returns a *Setting for a flag that is gone, such as --collect-pages, or nil.
func ReplacedFlag(flag string) error {
	variable := "CARILLON_" + strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(flag, "--"), "-", "_"))
	if issue := replaced[variable]; issue == "" && strings.HasSuffix(variable, "_FILE") {
		return &Setting{Variable: variable, Issue: "is a variable only: set it to the path of the file"}
	}
	return CheckReplaced([]string{variable})
}
