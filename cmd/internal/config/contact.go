package config

import (
	"net/mail"
	"net/url"
	"strings"
)

const (
	contactVariable = "CARILLON_COLLECT_CONTACT"
	maxContact      = 255 // bytes
)

// CheckContact refuses what is neither the address of a page nor an e-mail address, as a *Setting. It may be empty.
func CheckContact(contact string) error {
	if contact != "" && ContactURL(contact) == "" {
		return wrong(contactVariable,
			"must be the URL of a page, such as https://example.org/about-our-events, or an e-mail address, "+
				"such as events@example.org, "+
				"of at most %d characters", maxContact)
	}
	return nil
}

// ContactURL is a contact in a form for the User-Agent, where a parenthesis would end the comment; "" if it is not one.
func ContactURL(contact string) string {
	if len(contact) > maxContact || strings.ContainsFunc(contact, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`()<>"\`, r)
	}) {
		return ""
	}
	if u, err := url.Parse(contact); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" &&
		u.User == nil {
		return contact
	}
	address := strings.TrimPrefix(contact, "mailto:")
	if parsed, err := mail.ParseAddress(address); err == nil && parsed.Address == address {
		return "mailto:" + address
	}
	return ""
}
