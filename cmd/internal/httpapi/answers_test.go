package httpapi_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestOffsetBeyondAllIsAnEmptyPage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	for _, offset := range []string{"2147483647", "2147483648", "9007199254740993", "9223372036854775807",
		"9223372036854775808", "1" + strings.Repeat("0", 40)} {
		var page struct {
			Items      []any `json:"items"`
			Total      int   `json:"total"`
			Pagination struct {
				Offset  jsontext.Value `json:"offset"`
				HasMore bool           `json:"hasMore"`
			} `json:"pagination"`
		}
		s.do(t, request{path: destinationsPath + "?offset=" + offset}).into(t, 200, &page)
		exact := len(offset) < len("9223372036854775807")
		if len(page.Items) != 0 || page.Total != 1 || page.Pagination.HasMore ||
			exact && page.Pagination.Offset.String() != offset {
			t.Errorf("offset %s: %+v", offset, page)
		}
	}
	for _, wrong := range []string{"-1", "-99999999999999999999", "1e3", "%2B1"} {
		s.do(t, request{path: destinationsPath + "?offset=" + wrong}).refused(t, 400, "INVALID_QUERY", "offset must be")
	}
}

func TestIntegersInEveryNotation(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	path := destinationsPath + "/crm"
	for text, want := range map[string]int{"7": 7, "7.0": 7, "7e0": 7, "0.7e1": 7, "-0.0": 0, "86400.000": 86400} {
		var shown struct {
			Debounce int `json:"debounceWindowSeconds"`
		}
		s.do(t, request{method: "PATCH", path: path, body: `{"debounceWindowSeconds":` + text + `}`}).into(t, 200, &shown)
		if shown.Debounce != want {
			t.Errorf("%s is %d", text, shown.Debounce)
		}
	}
	for _, text := range []string{"7.5", "1e-1", "1e300", "9007199254740993.0", `"7"`, "null"} {
		got := s.do(t, request{method: "PATCH", path: path, body: `{"debounceWindowSeconds":` + text + `}`})
		got.refused(t, 400, "INVALID_BODY", "debounceWindowSeconds must")
	}
}
