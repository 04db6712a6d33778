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

// formOf returns the filter that an address or a form has.
func formOf(values url.Values, now time.Time) deliveryForm {
	form := deliveryForm{
		Status: values.Get("status"),
		Type:   values.Get("type"),
		Feed:   values.Get("feed"),
		Since:  values.Get("since"),
		Until:  values.Get("until"),
	}
	for _, p := range presetPeriods {
		if values.Get("last") == p.last {
			form.Since = p.since(now).Format("2006-01-02T15:04")
		}
	}
	return form
}

// presets returns the addresses of the same filter in each of the periods.
func (f deliveryForm) presets(path string) []preset {
	all := make([]preset, 0, len(presetPeriods))
	for _, p := range presetPeriods {
		values := url.Values{"last": {p.last}}
		for name, value := range map[string]string{"status": f.Status, "type": f.Type, "feed": f.Feed} {
			if value != "" {
				values.Set(name, value)
			}
		}
		all = append(all, preset{Name: p.name, To: path + "?" + values.Encode()})
	}
	return all
}
