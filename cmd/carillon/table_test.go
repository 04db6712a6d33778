package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

func TestTable_columns(t *testing.T) {
	t.Parallel()
	const want = "ready\n\nID      NAME            REMARK\n1-2-3   Söderköping     \n4-5-6   �[31m a b red   no\n"
	var out bytes.Buffer
	table := newTable(&out)
	row(table, "ready")
	row(table)
	row(table, "ID", "NAME", "REMARK")
	row(table, "1-2-3", "Söderköping", "")
	row(table, "4-5-6", "\x1b[31m a\tb\nred", "no")
	must.OK(t, table.Flush())
	assert.Equal(t, out.String(), want, "out")
}

func TestIdsMayBeAbbreviated(t *testing.T) {
	t.Parallel()
	ids := []uuid.UUID{uuid.MustParse("0d000000-0000-4000-8000-000000000001"),
		uuid.MustParse("0d100000-0000-4000-8000-000000000002")}
	list := func() ([]uuid.UUID, error) { return ids, nil }
	for text, want := range map[string]string{
		"0d0": "", "0D1": "", ids[0].String(): "",
		"f":  `no organization has an id that begins with f: "carillon org list" shows them`,
		"0d": "0d begins the ids of 2 organizations: give more of it",
	} {
		var start idStart
		must.OK(t, start.UnmarshalText([]byte(text)))
		id, err := start.find("organization", "org list", list)
		if want == "" && (err != nil || id != ids[0] && id != ids[1]) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %s, %v", text, id, err)
		}
	}
	for _, text := range []string{"", "xyz", "0d000000-0000-4000-8000-0000000000011",
		"0d000000000040008000000000000000001--"} {
		var start idStart
		err := start.UnmarshalText([]byte(text))
		assert.True(t, err != nil, "%q is taken for an id", text)
	}
}

func TestHarmless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Grüße <&>\t1\n":             "Grüße <&>\t1\n",
		"\x1b[31m \u009b2J":          `\u001b[31m \u009b2J`,
		"a\u202eb\u2028\r":           `a\u202eb\u2028\u000d`,
		"\U000e0041 👩\u200d👧 \u00a0": "\\udb40\\udc41 👩\u200d👧 \u00a0",
		"\x9b":                       "\uFFFD",
	} {
		var whole, parts bytes.Buffer
		n, err := (&harmless{to: &whole}).Write([]byte(text))
		assert.True(t, n == len(text) && err == nil, "%q: %d, %v", text, n, err)
		bytewise := &harmless{to: &parts}
		for i := range len(text) {
			_, _ = bytewise.Write([]byte(text[i : i+1]))
		}
		assert.True(t, whole.String() == want && parts.String() == want,
			"%q: %q, byte by byte %q", text, whole.String(), parts.String())
	}
}

// TestJSONOutputSteersNoTerminal prints an event whose data has control characters of a terminal.
func TestJSONOutputSteersNoTerminal(t *testing.T) {
	t.Parallel()
	s := open(t)
	const title = "\u009b31m \u202etxt.exe \x1b[2J"
	l := s.listen("--types", "news.*")
	data := must.Get(json.Marshal(map[string]string{"title": title}))(t)
	s.ok("trigger", "news.item.added", "--subject", "C1", "--data", string(data))
	got := l.next("C1") // of the JSON that is printed
	var envelope struct{ Data struct{ Title string } }
	err := json.Unmarshal([]byte(got.Body), &envelope, json.MatchCaseInsensitiveNames(true))
	assert.True(t, err == nil && envelope.Data.Title == title, "%q, %v", envelope.Data.Title, err)
	shown := l.lines.Text()
	for _, args := range [][]string{
		{"events", "show", got.EventID}, {"events", "show", got.EventID, "--json"},
	} {
		shown += s.asked(args...)
	}
	for _, r := range shown {
		assert.True(t, !steers(r), "%U in %q", r, shown)
	}
}

func TestHappeningTable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	origin := adminapi.HappeningOrigin{
		SourceID: uuid.MustParse("11111111-1111-4111-8111-111111111111"),
		Page:     "https://hall.example/1",
		Syntax:   "json-ld",
		Path:     "Event.name",
		At:       at,
		Value:    "Concert",
	}
	other := adminapi.HappeningOrigin{
		SourceID: uuid.MustParse("22222222-2222-4222-8222-222222222222"),
		At:       at,
		Value:    "Concert, sold out",
		Stale:    true,
	}
	var text bytes.Buffer
	to := newTable(&text)
	happeningRows(zoned{to, time.UTC}, adminapi.Happening{StaleSince: &at, Fields: []adminapi.HappeningField{
		{
			Field:  "title",
			Value:  "Concert",
			From:   []adminapi.HappeningOrigin{origin},
			Others: []adminapi.HappeningOrigin{other},
		},
		{Field: "start", Value: []string{"2026-12-05T20:00:00+01:00"}},
	}})
	must.OK(t, to.Flush())
	const want = `no source shows it since 2026-11-21T12:00:00Z
FIELD VALUE SOURCE WHERE SINCE
title Concert
 from Concert 11111111 json-ld Event.name https://hall.example/1 2026-11-21T12:00:00Z
 other, not on show Concert, sold out 22222222 2026-11-21T12:00:00Z
start ["2026-12-05T20:00:00+01:00"]
`
	got := regexp.MustCompile(` +\n`).ReplaceAllString(text.String(), "\n")
	if got = regexp.MustCompile(` +`).ReplaceAllString(got, " "); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestBackfillsAreSummedUp(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for want, backfills := range map[string][]query.Backfill{
		"0": nil,
		"5": {{Added: 2, EndedAt: &since}, {Added: 3, EndedAt: &since}},
		"5, 1 of 2 run since 2026-11-21T12:00:00Z": {{Added: 2, EndedAt: &since}, {Added: 3, Running: true, Since: since}},
	} {
		assert.Equal(t, backfill(zoned{zone: time.UTC}, backfills), want, "backfill")
	}
}

// TestTimesHaveOneFormat finds code of commands that formats a time itself.
func TestTimesHaveOneFormat(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"cmd/carillon", "cmd/internal/listen"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		must.True(t, err == nil && len(files) != 0, "%v", err)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file := must.Get(parser.ParseFile(set, path, nil, parser.SkipObjectResolution))(t)
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if ok && (method.Sel.Name == "Format" || method.Sel.Name == "AppendFormat" || method.Sel.Name == "Local") {
					t.Errorf("%s: a cell of row, moment or instant.Shown shows a time", set.Position(n.Pos()))
				}
				return true
			})
		}
	}
}

var shownTime = regexp.MustCompile(`\d{4}-\d\d-\d\d[^\s,]*( \d\d:[^\s,]*)?`)

// TestTimesInZone runs commands that show times.
func TestTimesInZone(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Zones")
	s.ok("key", "issue", org, "--expires", "2027-01-01T00:00:00Z")
	s.ok("operator", "issue", "zoe-"+uuid.NewString()[:8], "--expires", "720h")
	s.ok("source", "add", "site", "https://example.org/zones")
	s.ok("audit", "seal")
	for _, command := range []string{
		"org list", "key list " + org, "operator list", "source list", "audit organization " + org, "audit seal --show",
	} {
		for zone, flags := range map[string][]string{"+05:45": nil, "Z": {"--utc"}} {
			out := s.ok(append(strings.Fields(command), flags...)...)
			assert.True(t, strings.Contains(out, zone), "%s %v shows no time: %s", command, flags, out)
			for _, at := range shownTime.FindAllString(out, -1) {
				_, err := time.Parse(time.RFC3339, at)
				assert.True(t, err == nil && strings.HasSuffix(at, zone), "%s %v shows %q", command, flags, at)
			}
		}
	}
}
