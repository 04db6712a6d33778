package treeheads_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/must"
)

// keptHeads are heads that were kept elsewhere, beside an export that continues the first one and is of the last one.
func keptHeads(t *testing.T, heads []seal.Head) map[string][]seal.Head {
	t.Helper()
	first, last := heads[0], heads[3]
	change := func(head seal.Head, change func(*seal.Head)) seal.Head {
		change(&head)
		return head
	}
	dated := func(head seal.Head, key ed25519.PrivateKey) seal.Head {
		head.At, head.Key = head.At.Add(time.Hour), key.Public().(ed25519.PublicKey)
		text := base64.StdEncoding.EncodeToString
		head.Signature = ed25519.Sign(key, fmt.Appendf(nil, "carillon tree head v1\n%d\n%s\n%s\n%s\n", head.Size,
			text(head.Root), head.At.Format("2006-01-02T15:04:05.000000Z"), text(head.Kept)))
		return head
	}
	all := map[string][]seal.Head{
		"good":                      {first, last},
		"good, twice":               {last, last},
		"good, and one between":     {first, heads[1]},
		"none of them":              {heads[1], heads[2]},
		"another date":              {dated(last, own)},
		"another date of the first": {first, dated(first, own)},
		"two that differ":           {last, heads[1], dated(heads[1], own)},
		"another key":               {dated(last, evil)},
		"another key of the first":  {dated(first, evil)},
	}
	for name, head := range map[string]seal.Head{"first": first, "last": last} {
		for member, do := range map[string]func(*seal.Head){
			"root":      func(h *seal.Head) { h.Root = bytes.Repeat([]byte("x"), 32) },
			"date":      func(h *seal.Head) { h.At = h.At.Add(time.Hour) },
			"kept":      func(h *seal.Head) { h.Kept = bytes.Repeat([]byte("x"), 32) },
			"key":       func(h *seal.Head) { h.Key = bytes.Repeat([]byte{2}, 32) },
			"signature": func(h *seal.Head) { h.Signature = bytes.Repeat([]byte{1}, 64) },
		} {
			all["forged "+member+" of the "+name] = []seal.Head{change(head, do)}
		}
	}
	return all
}

// changedLines are the lines of an export, changed in every way by itself.
func changedLines(t *testing.T, lines []string) map[string][]string {
	t.Helper()
	all := map[string][]string{"nothing": nil}
	for i, line := range lines {
		all[fmt.Sprintf("line %d is cut", i)] = slices.Delete(slices.Clone(lines), i, i+1)
		all[fmt.Sprintf("line %d is there twice", i)] = slices.Insert(slices.Clone(lines), i, line)
		if i > 0 {
			swapped := slices.Clone(lines)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			all[fmt.Sprintf("line %d is moved", i)] = swapped
		}
		var members map[string]any
		must.OK(t, json.Unmarshal([]byte(line), &members))
		written := slices.Clone(lines)
		written[i] = strings.TrimSuffix(line, "\n") + " 1\n"
		all[fmt.Sprintf("line %d has another value", i)] = written
		if i < len(lines)-1 {
			ended := slices.Clone(lines)
			ended[i] = strings.TrimSuffix(line, "\n") + "\r\n"
			all[fmt.Sprintf("line %d has another end", i)] = ended
		}
		for path, changed := range variants(members) {
			text := must.Get(json.Marshal(changed))(t)
			other := slices.Clone(lines)
			other[i] = string(text) + "\n"
			all[fmt.Sprintf("%s of line %d", path, i)] = other
		}
	}
	return all
}

// variants are objects of which one member is another.
func variants(members map[string]any) map[string]map[string]any {
	more := maps.Clone(members)
	more["more"] = "1"
	all := map[string]map[string]any{"more": more}
	for name, value := range members {
		with := func(path string, value any) {
			other := maps.Clone(members)
			other[name] = value
			all[path] = other
		}
		switch value := value.(type) {
		case string:
			with(name, flip(value))
			with(name+" with more", value+"!")
		case float64:
			with(name, value+1)
		case map[string]any:
			for path, inner := range variants(value) {
				with(name+"."+path, inner)
			}
		case []any:
			with(name, value[1:])
			if text, ok := value[0].(string); ok {
				with(name+"[0]", append([]any{flip(text)}, value[1:]...))
				continue
			}
			for path, inner := range variants(value[0].(map[string]any)) {
				with(name+"[0]."+path, append([]any{inner}, value[1:]...))
			}
		}
	}
	return all
}

// flip changes the first character of a text to another that is as good.
func flip(text string) string {
	if strings.HasPrefix(text, "0") {
		return "1" + text[1:]
	}
	return "0" + text[1:]
}
