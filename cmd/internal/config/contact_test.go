package config_test

import (
	"strings"
	"testing"

	"carillon/cmd/internal/config"
)

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
		if err == nil ||
			!strings.Contains(err.Error(), "CARILLON_COLLECT_CONTACT (--collect-contact) must be the URL of a page") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", contact, err)
		}
	}
	if err := config.CheckContact(""); err != nil {
		t.Error(err)
	}
}
