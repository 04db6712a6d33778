package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/aggregates/subscription"
	"carillon/query"
)

// sentences says what each event on record means, by its name without the version: {member} is one of its detail,
// {thing} the thing that was changed, {id} its stream's, {settings} all members. A part in brackets is left out without
// its members.
//
//nolint:gosec // words about secrets, no secret
var sentences = map[string]string{
	"organization.registered":     "registered {thing}",
	"organization.suspended":      "suspended {thing}[: {reason}]",
	"organization.resumed":        "resumed {thing}",
	"organization.deleted":        "deleted {thing}",
	"organization.limits-set":     "set limits of {thing}[: {limits}]",
	"organization.key-issued":     "issued {thing}[ with the scopes {scopes}][, until {expiresAt}]",
	"organization.key-rotated":    "issued {thing} for {of}[; the old one ends {endsAt}]",
	"organization.key-revoked":    "revoked {thing}",
	"client_certificate.set":      "set the client certificate of {thing}[: {subject}]",
	"client_certificate.replaced": "replaced the client certificate of {thing}[ by {subject}]",
	"client_certificate.removed":  "removed the client certificate of {thing}",
	"destination.created":         "created {thing}[ for {url}]",
	"destination.revised":         "changed {thing} to {settings}",
	"destination.secret-minted":   "made the secret {secretId} of {thing}",
	"destination.secret-rotated":  "rotated the secret of {thing}[; the old one signs until {expiresAt}]",
	"destination.secret-expired":  "expired the secret {expiring} of {thing}",
	"destination.enabled":         "enabled {thing}",
	"destination.disabled":        "disabled {thing}",
	"destination.auto-disabled":   "disabled {thing} automatically[: {statusReason}]",
	"destination.deleted":         "deleted {thing}",
	"disclosure.shown":            "was shown {shown} of {thing}[: {shownSecrets}]",
	"subscription.created":        "subscribed {thing}[ to {declaration}]",
	"subscription.revised":        "changed the subscription {id} of {thing}[ to {declaration}]",
	"subscription.activated":      "activated the subscription {id} of {thing}",
	"subscription.deactivated":    "deactivated the subscription {id} of {thing}[: {reason}]",
	"subscription.deleted":        "deleted the subscription {id} of {thing}",
	"feed.created":                "created {thing}",
	"feed.registered":             "registered {thing}",
	"feed.revised":                "changed {thing} to {settings}",
	"feed.enabled":                "enabled {thing}",
	"feed.disabled":               "disabled {thing}[: {reason}]",
	"feed.deleted":                "deleted {thing}",
	"feed.shared":                 "shared {thing} with {with}",
	"feed.unshared":               "ended the share of {thing} with {with}",
	"feed.source-attached":        "attached the {sourceType} source {sourceId} to {thing}",
	"feed.source-detached":        "detached the source {sourceId} from {thing}",
	"source.registered":           "registered {thing}[: {url}][ {handle}]",
	"source.paused":               "paused {thing}[: {reason}]",
	"source.resumed":              "resumed {thing}",
	"source.revised":              "changed how {thing} is read to {settings}",
	"source.collection-requested": "asked for a visit of {thing}",
	"operator.acted":              "{action}[ of {subject}]", // and by its action, as below
	"operator.token-issued":       "issued {thing} the token {tokenId}[, until {expiresAt}]",
	"operator.token-rotated":      "issued {thing} the token {tokenId}[ for {ending}][; the old one ends {endsAt}]",
	"operator.revoked":            "revoked {thing}",
	"auditor.token-issued":        "issued {thing}[ for the organization {organization}][, until {expiresAt}]",
	"auditor.token-revoked":       "revoked {thing}",

	"operator.acted make-console-link":    "made a login link of the console for {subject}",
	"operator.acted rebuild-projection":   "rebuilt the read model {subject}",
	"operator.acted verify-projection":    "compared the read model {subject} with the log",
	"operator.acted create-analyst-login": "made the analyst's login {subject}",
	"operator.acted delete-analyst-login": "deleted the analyst's login {subject}",
	"operator.acted rotate-master-key":    "rotated the master key",
	"operator.acted renew-keys":           "renewed the data keys",
}

var (
	optionalPart = regexp.MustCompile(`\[[^\]]*\]`)
	member       = regexp.MustCompile(`\{\w+\}`)
	wholeID      = regexp.MustCompile(`\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
)

// Describe returns a sentence about an entry of the record, whose subject is its actor and whose object has a name. Ids
// are shortened.
func Describe(e query.RecordEntry, thing string, when func(time.Time) string) string {
	name, _, _ := strings.Cut(e.Type, ".v")
	members := map[string]any{}
	_ = json.Unmarshal(e.Detail, &members) // the projector wrote it
	sentence, known := sentences[name]
	if acted, of := sentences[fmt.Sprint(name, " ", members["action"])]; of {
		sentence = acted
	}
	if !known { // not on record
		_, verb, _ := strings.Cut(name, ".")
		sentence = strings.ReplaceAll(verb, "-", " ") + " {thing}"
	}
	_, id, _ := strings.Cut(e.Stream, "-")
	texts := map[string]string{"{thing}": thing, "{id}": id, "{settings}": valueText(members, when)}
	for key, value := range members {
		texts["{"+key+"}"] = valueText(value, when)
	}
	var subscribed struct {
		Declaration subscription.Settings `json:"declaration"`
	}
	if json.Unmarshal(e.Detail, &subscribed) == nil && len(subscribed.Declaration.EventTypes) > 0 {
		texts["{declaration}"] = subscribed.Declaration.Words()
	}
	sentence = optionalPart.ReplaceAllStringFunc(sentence, func(part string) string {
		for _, m := range member.FindAllString(part, -1) {
			if texts[m] == "" {
				return ""
			}
		}
		return strings.Trim(part, "[]")
	})
	sentence = member.ReplaceAllStringFunc(sentence, func(m string) string { return texts[m] })
	return wholeID.ReplaceAllString(sentence, "$1")
}

// Thing names the thing of an entry: by its name, if it has one, and its kind and id.
func Thing(e query.RecordEntry) string {
	text := e.Kind + " " + e.Thing
	if e.Name != nil && *e.Name != e.Thing {
		text = *e.Name + " (" + text + ")"
	}
	return text
}

func valueText(value any, when func(time.Time) string) string {
	switch v := value.(type) {
	case nil:
		return ""
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+" "+valueText(v[name], when))
		}
		return strings.Join(parts, ", ")
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = valueText(v[i], when)
		}
		return strings.Join(parts, " ")
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return when(at)
		}
	}
	return fmt.Sprint(value)
}
