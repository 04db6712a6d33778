package audit

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"carillon/aggregates/destination"
	"carillon/query"
)

// Changes describes the settings of a destination that differ, a text each.
func Changes(before, after query.AuditDetail) []string {
	var parts []string
	then, now := settingsOf(before), settingsOf(after)
	for _, d := range destination.Fields {
		text := d.Text(now)
		switch {
		case text == d.Text(then):
			continue
		case text == "":
			text = "none"
		case d.Field.Has(destination.FieldName | destination.FieldExternalID):
			text = strconv.Quote(text)
		}
		parts = append(parts, d.Label+": "+text)
	}
	if headers := headerChanges(before, after); headers != "" {
		parts = append(parts, "headers: "+headers)
	} else if len(parts) == 0 {
		parts = append(parts, "headers: changed") // their names were not recorded
	}
	return parts
}

// headerChanges names the headers that were added, removed and changed. It is empty if none was, or if that is not
// known.
func headerChanges(before, after query.AuditDetail) string {
	if !after.HasHeaders && before.HasHeaders && len(before.Headers) == 0 {
		return "none"
	}
	if before.HasHeaders && len(before.Headers) == 0 || after.HasHeaders && len(after.Headers) == 0 {
		if before.HasHeaders != after.HasHeaders {
			return "changed"
		}
		return ""
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(after.Headers)) {
		switch digest, known := before.Headers[name]; {
		case !known:
			changes = append(changes, name+" added")
		case digest != after.Headers[name]:
			changes = append(changes, name+" changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Headers)) {
		if _, stays := after.Headers[name]; !stays {
			changes = append(changes, name+" removed")
		}
	}
	return strings.Join(changes, ", ")
}
