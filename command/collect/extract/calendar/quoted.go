package calendar

import (
	"bytes"
	"fmt"
	"io"
	"mime/quotedprintable"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/html/charset"
)

var (
	quotedLine = regexp.MustCompile(`(?i)^[a-z0-9.-]+;(?:[^:"]*;)?(?:encoding=)?quoted-printable(?:;[^:]*)?:`)
	lineEnd    = regexp.MustCompile(`\r\n?|\n`)
)

// decodeQuoted decodes the lines of a file that are in quoted-printable, as vCalendar 1.0 has them and programs write
// them into later versions: bytes of the charset that the line names, and line ends in the text.
func decodeQuoted(body []byte) []byte {
	if !bytes.Contains(body, []byte("QUOTED-PRINTABLE")) && !bytes.Contains(body, []byte("quoted-printable")) {
		return body
	}
	plain := make([]byte, 0, len(body))
	for len(body) > 0 {
		line, rest := cutLine(body)
		head := quotedLine.Find(line)
		if head == nil {
			plain, body = append(plain, body[:len(body)-len(rest)]...), rest
			continue
		}
		for bytes.HasSuffix(line, []byte("=")) && len(rest) > 0 {
			var more []byte
			more, rest = cutLine(rest)
			line = append(bytes.TrimSuffix(line, []byte("=")), more...)
		}
		value, err := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(line[len(head):])))
		if err != nil {
			value = line[len(head):]
		}
		l, _ := parseOnce(string(head))
		if e, _ := charset.Lookup(l.param("CHARSET")); e != nil {
			if text, err := e.NewDecoder().Bytes(value); err == nil {
				value = text
			}
		}
		plain = append(append(append(plain, head...), lineEnd.ReplaceAll(value, []byte(`\n`))...), '\n')
		body = rest
	}
	return plain
}

// cutLine returns a copy of the first line without its end, and the rest.
func cutLine(body []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(body, []byte("\n"))
	return bytes.TrimSuffix(bytes.Clone(line), []byte("\r")), rest
}

var (
	oldRule  = regexp.MustCompile(`^(D|W|M[PD]|Y[MD])(\d+)((?: [A-Z0-9+-]+)*?)(?: #(\d+))?(?: (\d{8}(?:T\d{6}Z?)?))?$`)
	oldWeeks = regexp.MustCompile(`^(\d)([+-])$`)
)

// oldFrequencies are the frequencies of vCalendar 1.0, with the part of a rule that its numbers are for.
var oldFrequencies = map[string][2]string{
	"D": {"DAILY"}, "W": {"WEEKLY", "BYDAY"}, "MP": {"MONTHLY", "BYDAY"}, "MD": {"MONTHLY", "BYMONTHDAY"},
	"YM": {"YEARLY", "BYMONTH"}, "YD": {"YEARLY", "BYYEARDAY"},
}

// modernRule returns a rule of vCalendar 1.0 in the terms of iCalendar: "W2 MO WE #10", "MP1 1+ SU 20271231". Without
// an end it is for two instances, #0 for no end.
func modernRule(value string) string {
	if strings.Contains(value, "=") {
		return value
	}
	m := oldRule.FindStringSubmatch(strings.ToUpper(strings.TrimSpace(value)))
	if m == nil {
		return value
	}
	rule := fmt.Sprintf("FREQ=%s;INTERVAL=%s", oldFrequencies[m[1]][0], m[2])
	var list []string
	weeks := ""
	for _, word := range strings.Fields(m[3]) {
		switch week := oldWeeks.FindStringSubmatch(word); {
		case week != nil && m[1] == "MP":
			weeks = strings.TrimPrefix(week[2], "+") + week[1]
		case word == "LD":
			list = append(list, "-1")
		case oldWeeks.MatchString(word):
			list = append(list, strings.TrimPrefix(word[1:], "+")+word[:1])
		default:
			list = append(list, weeks+word)
		}
	}
	if part := oldFrequencies[m[1]][1]; part != "" && len(list) > 0 {
		rule += ";" + part + "=" + strings.Join(list, ",")
	}
	switch count, _ := strconv.Atoi(m[4]); {
	case count > 0:
		rule += ";COUNT=" + m[4]
	case m[5] != "":
		rule += ";UNTIL=" + m[5]
	case m[4] == "":
		rule += ";COUNT=2"
	}
	return rule
}
