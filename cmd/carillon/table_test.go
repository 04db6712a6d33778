package main

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
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
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("%q\nwant\n%q", out.String(), want)
	}
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
		if err := start.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		id, err := start.find("organization", "org list", list)
		if want == "" && (err != nil || id != ids[0] && id != ids[1]) || want != "" &&
			(err == nil || err.Error() != want) {
			t.Errorf("%s: %s, %v", text, id, err)
		}
	}
	for _, text := range []string{"", "xyz", "0d000000-0000-4000-8000-0000000000011",
		"0d000000000040008000000000000000001--"} {
		var start idStart
		err := start.UnmarshalText([]byte(text))
		if err == nil {
			t.Errorf("%q is taken for an id", text)
		}
	}
}
