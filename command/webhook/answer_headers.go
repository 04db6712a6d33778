package webhook

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// The headers of an answer that are kept: characters of one line, and of all.
const (
	maxHeaderLine = 500
	maxHeaders    = 4_000
)

// shownHeaders returns the headers of an answer by name, a line for each value. Cookies and the secrets of the
// destination are masked.
func shownHeaders(header http.Header, hide *concealer) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if name == "Set-Cookie" {
				value = concealed
			}
			line := shorten(strings.ToLower(name)+": "+hide.replace(value), maxHeaderLine) + "\n"
			if text.Len()+len(line) > maxHeaders {
				text.WriteString("…\n")
				return keptText([]byte(text.String()))
			}
			text.WriteString(line)
		}
	}
	return keptText([]byte(text.String()))
}
