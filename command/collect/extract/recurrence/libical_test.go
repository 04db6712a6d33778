package recurrence_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon/command/collect/budget"
	"carillon/command/collect/extract/recurrence"
)

// libical is the path of libical's cases in the corpus beside the project. Optional.
var libical = filepath.Join("..", "..", "..", "..", "..", "shared", "corpus", "libical", "icalrecur_test.txt")

// recurrenceCase is a rule with its expected starts.
type recurrenceCase struct {
	comment, rule, start, startAt string
	instances                     []string
}

func readCases(t *testing.T, name string) []recurrenceCase {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Skip("the corpus isn't here")
	}
	defer func() { _ = file.Close() }()
	var all []recurrenceCase
	var c recurrenceCase
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch {
		case strings.HasPrefix(name, "#"):
			c.comment = lines.Text()
		case name == "RRULE":
			c.rule = value
		case name == "DTSTART":
			c.start = value
		case name == "START-AT":
			c.startAt = value
		case name == "INSTANCES":
			c.instances = strings.Split(strings.TrimSpace(value), ",")
			all = append(all, c)
			c = recurrenceCase{}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func wall(t *testing.T, text string) (at time.Time, allDay bool) {
	t.Helper()
	if at, err := time.Parse("20060102", text); err == nil {
		return at, true
	}
	at, err := time.Parse("20060102T150405", strings.TrimSuffix(text, "Z"))
	if err != nil {
		t.Fatal(err)
	}
	return at, false
}

// unlike lists the cases whose expectation is not met, with the reasons.
var unlike = map[string]string{
	"FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=30;BYWEEKNO=1;UNTIL=20320101": "libical doesn't implement the combination",
}

func TestLibical(t *testing.T) {
	t.Parallel()
	cases := readCases(t, libical)
	if len(cases) < 139 {
		t.Fatalf("only %d cases were read", len(cases))
	}
	met := 0
	for _, c := range cases {
		if unlike[c.rule] != "" {
			continue
		}
		got, err := expand(t, c)
		if err != nil {
			t.Errorf("%s\n%s from %s: %v", c.comment, c.rule, c.start, err)
			continue
		}
		if diff := cmp.Diff(c.instances, got); diff != "" {
			t.Errorf("%s\n%s from %s (-want +got):\n%s", c.comment, c.rule, c.start, diff)
			continue
		}
		met++
	}
	t.Logf("%d of %d cases are met, %d are left out with a reason", met, len(cases), len(unlike))
}

func expand(t *testing.T, c recurrenceCase) ([]string, error) {
	t.Helper()
	rule, err := recurrence.ParseRule(c.rule)
	if err != nil {
		return nil, err
	}
	rule.Until = rule.Until.In(time.UTC)
	start, allDay := wall(t, c.start)
	layout := "20060102T150405"
	if allDay {
		layout = "20060102"
	}
	if strings.HasSuffix(c.start, "Z") {
		layout += "Z"
	}
	span := recurrence.Span{From: start, To: start.AddDate(150, 0, 0)}
	var got []string
	err = recurrence.Walk(budget.Of(context.Background(), 1_000_000, 0), rule, start, allDay, span,
		func(at time.Time) bool {
			got = append(got, at.Format(layout))
			return len(got) < 5000
		})
	if err != nil && !errors.Is(err, recurrence.ErrSteps) {
		return nil, err
	}
	return got, err
}
