package console

import "time"

// zoneOf returns the zone of an event, and its name; UTC if it names none that is known.
func zoneOf(name string) (*time.Location, string) {
	if zone, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" {
		return zone, name
	}
	return time.UTC, "UTC"
}

const (
	dateFormat  = "Mon 2 Jan 2006, 15:04"
	clockFormat = "15:04"
)

// eventSpan formats the times of an event in its own zone: "Sat 28 Nov 2026, 19:30 to 22:00, Europe/Rome".
func eventSpan(zone string, start time.Time, end *time.Time) string {
	at, name := zoneOf(zone)
	start = start.In(at)
	text := start.Format(dateFormat)
	if end != nil && !end.Equal(start) {
		format := clockFormat
		if until := end.In(at); until.Format(time.DateOnly) != start.Format(time.DateOnly) {
			format = dateFormat
		}
		text += " to " + end.In(at).Format(format)
	}
	return text + ", " + name
}

// Local returns a time of an item on the clock of its zone.
func (i shownItem) Local(at time.Time) time.Time {
	zone, _ := zoneOf(i.Time.Timezone)
	return at.In(zone)
}
