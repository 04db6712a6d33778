package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/eventstore/instant"
	"carillon/projections/audit"
	"carillon/query"
)

// The picture of an audit: time runs down, a line a change. The first lane is the status, each other one a secret.
const (
	pictureWidth = 80
	byWidth      = 18 // at most: "destination_health"
	legend       = `status:  █ enabled  ░ disabled  ▒ auto_disabled  × deleted
secrets: ┬ begins  │ signs  ┊ signs until its overlap is over  ┴ ends`
)

var statusGlyphs = map[string]rune{"enabled": '█', "disabled": '░', "auto_disabled": '▒', "deleted": '×'}

// lane is the line of one secret, in a column that it has from its beginning to its end.
type lane struct {
	secret uuid.UUID
	column int
	ends   *time.Time // nil: never
}

// pictureRow is a moment of the picture.
type pictureRow struct {
	when     time.Time
	what, by string
	at, next []rune // the lanes in this row, and between it and the one below
	rule     bool   // it marks the time of the state, and is no change
}

// picture draws as it goes through the history.
type picture struct {
	zone    *time.Location
	rows    []pictureRow
	status  rune
	lanes   []lane
	columns int
	known   query.AuditDetail // the last one with settings
}

// drawAudit renders an audit for a terminal of 80 columns.
func drawAudit(a adminapi.Audit, zone *time.Location) string {
	p := &picture{zone: zone, status: ' '}
	counts := slices.IndexFunc(a.Entries,
		func(e query.AuditEntry) bool { return a.State == nil || e.Revision > a.State.Revision })
	if counts < 0 {
		counts = len(a.Entries)
	}
	for _, e := range a.Entries[:counts] {
		p.timeTo(e.At)
		p.change(e)
	}
	p.timeTo(a.At)
	p.add(pictureRow{when: a.At, at: p.glyphs(), rule: true})
	for _, e := range a.Entries[counts:] {
		p.timeTo(e.At)
		p.change(e)
	}
	p.timeTo(time.Unix(1<<40, 0)) // the rest, if nothing else happens
	var out strings.Builder
	out.WriteString(stateText(a, zone))
	p.write(&out)
	out.WriteString("\n" + legend + "\n")
	p.disclosures(&out, a.Disclosures)
	return out.String()
}

// pictureDisclosures is how many the picture has: more are in the export.
const pictureDisclosures = 10

// disclosures writes what was shown in full to whom, the newest first.
func (p *picture) disclosures(out *strings.Builder, all []query.AuditEntry) {
	if len(all) == 0 {
		return
	}
	out.WriteString("\nSHOWN IN FULL\n")
	for _, e := range all[:min(len(all), pictureDisclosures)] {
		what := strings.Join(e.Detail.Shown, ", ")
		for _, id := range e.Detail.ShownSecrets {
			what += " " + short(id)
		}
		when := p.when(e.At)
		for i, line := range wrap(what+" to "+printable(e.Actor), pictureWidth-len(when)-1) {
			if i > 0 {
				when = strings.Repeat(" ", len(when))
			}
			_, _ = fmt.Fprintf(out, "%s %s\n", when, line)
		}
		if e.Reason != nil {
			_, _ = fmt.Fprintf(out, "%*s reason: %s\n", len(when), "", printable(*e.Reason))
		}
	}
	if len(all) > pictureDisclosures {
		out.WriteString("and more before: --export has all of them\n")
	}
}

func (p *picture) when(at time.Time) string { return instant.Shown(at, p.zone) }

// timeTo ends the secrets whose overlap is over by then: there is no event for that.
func (p *picture) timeTo(now time.Time) {
	for {
		i := -1
		for j, l := range p.lanes {
			if l.ends != nil && !l.ends.After(now) && (i < 0 || l.ends.Before(*p.lanes[i].ends)) {
				i = j
			}
		}
		if i < 0 {
			return
		}
		l := p.lanes[i]
		at := p.glyphs()
		at[l.column] = '┴'
		p.lanes = slices.Delete(p.lanes, i, i+1)
		p.add(pictureRow{
			when: *l.ends,
			what: "secret " + short(l.secret) + " expires: its overlap is over",
			by:   "time",
			at:   at,
		})
	}
}

func (p *picture) add(r pictureRow) {
	r.next = p.glyphs()
	p.rows = append(p.rows, r)
}

// change draws one entry.
func (p *picture) change(e query.AuditEntry) {
	d := e.Detail
	what := p.describe(e)
	if glyph, ok := statusGlyphs[d.Status]; ok {
		p.status = glyph
	}
	var over []lane
	for i := range p.lanes {
		if l := &p.lanes[i]; slices.Contains(d.Expiring, l.secret) {
			l.ends = &d.ExpiresAt
		}
		if ends := p.lanes[i].ends; d.Status == "deleted" || ends != nil && !ends.After(e.At) {
			over = append(over, p.lanes[i])
		}
	}
	begins := -1
	if d.SecretID != uuid.Nil {
		begins = p.free()
		p.lanes = append(p.lanes, lane{secret: d.SecretID, column: begins})
	}
	at := p.glyphs()
	for _, l := range over {
		at[l.column] = '┴'
	}
	if begins >= 0 {
		at[begins] = '┬'
	}
	p.lanes = slices.DeleteFunc(p.lanes, func(l lane) bool { return slices.Contains(over, l) })
	p.add(pictureRow{
		when: e.At,
		what: what,
		by:   e.Actor,
		at:   at,
	})
	if d.Status == "deleted" {
		p.status = ' '
		p.rows[len(p.rows)-1].next = p.glyphs()
	}
}

// free is the first column that no lane has.
func (p *picture) free() int {
	for column := 1; ; column++ {
		if !slices.ContainsFunc(p.lanes, func(l lane) bool { return l.column == column }) {
			p.columns = max(p.columns, column)
			return column
		}
	}
}

// glyphs are the lanes as they run on.
func (p *picture) glyphs() []rune {
	glyphs := slices.Repeat([]rune{' '}, p.columns+1)
	glyphs[0] = p.status
	for _, l := range p.lanes {
		glyphs[l.column] = '│'
		if l.ends != nil {
			glyphs[l.column] = '┊'
		}
	}
	return glyphs
}

// describe says what an entry changed.
func (p *picture) describe(e query.AuditEntry) string {
	d := e.Detail
	var parts []string
	created := d.URL != "" && p.known.URL == ""
	switch {
	case created:
		parts = append(parts, "created "+strconv.Quote(d.Name)+" for "+d.URL)
	case d.URL != "":
		parts = append(parts, audit.Changes(p.known, d)...)
	}
	if d.URL != "" {
		p.known = d
	}
	if d.SecretID != uuid.Nil {
		parts = append(parts, "secret "+short(d.SecretID)+" begins")
	}
	for _, id := range d.Expiring {
		if d.ExpiresAt.After(e.At) {
			parts = append(parts, "secret "+short(id)+" signs until "+p.when(d.ExpiresAt))
		} else {
			parts = append(parts, "secret "+short(id)+" is expired at once")
		}
	}
	if d.Status != "" && !created {
		parts = append(parts, d.Status)
	}
	if d.StatusReason != "" {
		parts = append(parts, d.StatusReason)
	}
	if e.Reason != nil && *e.Reason != d.StatusReason {
		parts = append(parts, "reason: "+*e.Reason)
	}
	if len(parts) == 0 {
		return e.Type
	}
	return strings.Join(parts, "; ")
}

// write lays the rows out.
func (p *picture) write(out *strings.Builder) {
	by, width := len("BY"), 0 // of actors, of times
	for _, r := range p.rows {
		by = min(max(by, utf8.RuneCountInString(r.by)), byWidth)
		width = max(width, len(p.when(r.when))) // one in UTC is shorter than others
	}
	lanes := func(glyphs []rune) string {
		var b strings.Builder
		for column := range p.columns + 1 {
			glyph := ' '
			if column < len(glyphs) {
				glyph = glyphs[column]
			}
			b.WriteRune(glyph)
			if column == 0 {
				b.WriteByte(' ')
			}
		}
		return b.String()
	}
	what := pictureWidth - width - 1 - (p.columns + 2) - 1 - 1 - by
	line := func(when, glyphs, text, by string) {
		out.WriteString(strings.TrimRight(fmt.Sprintf("%-*s %s %-*s %s", width, when, glyphs, what, text,
			by), " ") + "\n")
	}
	out.WriteByte('\n')
	line("WHEN", lanes(nil), "CHANGE", "BY")
	for _, r := range p.rows {
		if r.rule {
			text := "the state above"
			line(p.when(r.when), lanes(r.at), "◀─ "+text+" "+
				strings.Repeat("─", max(what-len(text)-4, 0)), "")
			continue
		}
		by := clip(printable(r.by), by)
		when, glyphs := p.when(r.when), lanes(r.at)
		for _, text := range wrap(printable(r.what), what) {
			line(when, glyphs, text, by)
			when, glyphs, by = "", lanes(r.next), ""
		}
	}
}
