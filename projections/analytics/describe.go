package analytics

import (
	"regexp"
	"strings"
)

// Description describes a view, as its comments do.
type Description struct {
	Name, Text string
	Columns    []ColumnDescription
}

// ColumnDescription describes a column of a view.
type ColumnDescription struct {
	Name, Text string
	Key        bool   // it identifies a row
	Of         string // the view whose key it is; empty for other columns
}

// comment matches a comment in the file of a view. A quote in the text is doubled.
var comment = regexp.MustCompile(`COMMENT ON (?:VIEW|COLUMN) analytics\.(\w+)(?:\.(\w+))? IS '((?:[^']|'')*)';`)

// otherwise are columns that are named as a key, and are none of it.
var otherwise = map[string]bool{"items.event_id": true} // a happening, as in the API

// singular returns the name of a row of a view.
func singular(view string) string {
	if stem, is := strings.CutSuffix(view, "ies"); is {
		return stem + "y"
	}
	return strings.TrimSuffix(view, "s")
}

// Describe returns the descriptions of all views, by name.
func Describe() []Description {
	all := make([]Description, len(views))
	homes := map[string]string{} // keys, and the views that have a row of each
	for i, v := range views {
		for _, found := range comment.FindAllStringSubmatch(v.sql, -1) {
			column, text := found[2], strings.ReplaceAll(found[3], "''", "'")
			if column == "" {
				all[i].Name, all[i].Text = found[1], text
				continue
			}
			key := column == singular(v.name)+"_id"
			if key {
				homes[column] = v.name
			}
			all[i].Columns = append(all[i].Columns, ColumnDescription{Name: column, Text: text, Key: key})
		}
	}
	for i := range all {
		for j := range all[i].Columns {
			if c := &all[i].Columns[j]; !c.Key && !otherwise[all[i].Name+"."+c.Name] {
				c.Of = homes[c.Name]
			}
		}
	}
	return all
}
