package calendar_test

import (
	"testing"
	"time"
)

// TestOldCalendars reads what vCalendar 1.0 has and later versions lack.
func TestOldCalendars(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const start = "DTSTART:20260505T170000Z\r\n"
	for lines, want := range map[string]string{
		"SUMMARY;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:F=EAte\r\n" + start://
		"Fête, UTC: scheduled 2026-05-05T17:00",
		"SUMMARY;QUOTED-PRINTABLE:A =\r\nB\r\n" + start: "A B, UTC: scheduled 2026-05-05T17:00",
		"SUMMARY:T\r\n" + start + "RRULE:W1 TU #3\r\nEXDATE:20260512T170000Z;20260101T000000Z\r\n"://
		"T, UTC: scheduled 2026-05-05T17:00, scheduled 2026-05-19T17:00",
		"SUMMARY:T\r\n" + start + "RRULE:MP1 1+ TU 20260701T000000Z\r\n"://
		"T, UTC: scheduled 2026-05-05T17:00, scheduled 2026-06-02T17:00",
		"SUMMARY:T\r\n" + start + "RRULE:MD1 5 #2\r\n"://
		"T, UTC: scheduled 2026-05-05T17:00, scheduled 2026-06-05T17:00",
		"SUMMARY:T\r\n" + start + "RRULE:D2\r\n": "T, UTC: scheduled 2026-05-05T17:00, scheduled 2026-05-07T17:00",
	} {
		result := readAt(t, at, "", "BEGIN:VCALENDAR\r\nVERSION:1.0\r\nBEGIN:VEVENT\r\nUID:1\r\n"+lines+
			"END:VEVENT\r\nEND:VCALENDAR\r\n")
		compare(t, instants(result.Observations), want)
	}
}
