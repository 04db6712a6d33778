package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestTriggerPublishesExamples(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, name := range typeNames() {
		code, out, errors := s.run("trigger", name, "--count", "2", "--subject", uuid.NewString())
		reserved := name == "event.item.updated"
		if !reserved && (code != 0 || !strings.Contains(out, "published 2 "+name)) || reserved && code == 0 {
			t.Errorf("trigger %s: exit %d\n%s%s", name, code, out, errors)
		}
	}
	_, command, _ := strings.Cut(s.ok("trigger", "research.status.changed"), "carillon ")
	args := strings.Fields(command)
	if list := s.asked("events", "list", "--type", "research.*"); len(args) < 3 || !strings.Contains(list, args[2]) {
		t.Fatalf("%q is not at once in\n%s", command, list)
	}
	s.has(s.asked(args[:3]...), "research.status.changed", "example/1")
	s.refused("the types are news.item.added", "trigger", "news.item")
	s.refused("data/status", "trigger", "factcheck.status.changed", "--data", `{"status":"done"}`)
	for text, args := range map[string][]string{
		"--data must be a JSON object": {"--data", "[1]"},
		"--count must be 1 to":         {"--count", "0"},
	} {
		code, _, errors := runIn(t.Context(), "", append([]string{"trigger", "news.item.added"}, args...)...)
		if code != 2 || !strings.Contains(errors, text) {
			t.Errorf("trigger %v: exit %d %s", args, code, errors)
		}
	}
}
