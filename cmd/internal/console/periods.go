package console

import (
	"net/url"
	"time"
)

// preset is a period to choose.
type preset struct{ Name, To string }

// presetPeriods are the periods to choose, by the value of the parameter last. An address with it means the same period
// at any time.
var presetPeriods = []struct {
	last, name string
	since      func(now time.Time) time.Time
}{
	{"hour", "the last hour", func(now time.Time) time.Time { return now.Add(-time.Hour) }},
	{"day", "24 hours", func(now time.Time) time.Time { return now.AddDate(0, 0, -1) }},
	{"week", "7 days", func(now time.Time) time.Time { return now.AddDate(0, 0, -7) }},
}

// lastSince returns when the period begins that an address names by last, if it does.
func lastSince(values url.Values, now time.Time) (since string, asked bool) {
	for _, p := range presetPeriods {
		if values.Get("last") == p.last {
			return p.since(now).Format("2006-01-02T15:04"), true
		}
	}
	return "", false
}

// formOf returns the filter that an address or a form has.
func formOf(values url.Values, now time.Time) deliveryForm {
	form := deliveryForm{
		Status: values.Get("status"),
		Type:   values.Get("type"),
		Feed:   values.Get("feed"),
		Since:  values.Get("since"),
		Until:  values.Get("until"),
	}
	if since, asked := lastSince(values, now); asked {
		form.Since = since
	}
	return form
}

// presetsOf returns the addresses of the same list in each of the periods.
func presetsOf(at *url.URL) []preset {
	all := make([]preset, 0, len(presetPeriods))
	for _, p := range presetPeriods {
		values := at.Query()
		for _, other := range []string{"since", "until", "before", "cursor", "page", "done"} {
			values.Del(other)
		}
		values.Set("last", p.last)
		all = append(all, preset{Name: p.name, To: at.Path + "?" + values.Encode()})
	}
	return all
}
