package identity_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"carillon/command/collect/identity"
)

// FuzzSplitRemark shows that the rest of a title is never empty.
func FuzzSplitRemark(f *testing.F) {
	for _, title := range []string{"CANCELLED - Gig", "Gig (ausverkauft)", "[Annulé] Concert", "Gig – neuer Termin!",
		strings.Repeat("ü", 99) + " (sold out)"} {
		f.Add(title)
	}
	f.Fuzz(func(t *testing.T, title string) {
		rest, remark := identity.SplitRemark(title)
		if title != "" && rest == "" || len(rest) > len(title) || remark == (identity.Remark{}) && rest != title {
			t.Fatalf("%q is %q with %+v", title, rest, remark)
		}
		if utf8.ValidString(title) && !utf8.ValidString(rest) {
			t.Fatalf("%q is cut within a character", rest)
		}
	})
}
