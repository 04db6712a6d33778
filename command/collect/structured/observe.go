package structured

import (
	"slices"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/markup"
	"carillon/command/collect/timing"
)

const (
	// ongoingDays is from when on something is ongoing rather than long, and
	// exhibitionDays the same for what calls itself an exhibition.
	ongoingDays    = 28
	exhibitionDays = 7
)

// observations makes an observation of all candidates of one key, in the order
// of the page. The first candidate says what the others share.
func (m *mapper) observations(candidates []*candidate) []collect.Observation {
	byKey := map[string][]*candidate{}
	var order []string
	for _, c := range candidates {
		if byKey[c.key] == nil {
			order = append(order, c.key)
		}
		byKey[c.key] = append(byKey[c.key], c)
	}
	if len(order) > maxObservations {
		m.note(collect.NoteTruncated, "the page shows %d events, of which %d are read", len(order), maxObservations)
		order = order[:maxObservations]
	}
	found := make([]collect.Observation, len(order))
	for i, key := range order {
		found[i] = m.observation(byKey[key])
	}
	return found
}

func (m *mapper) observation(same []*candidate) collect.Observation {
	c := same[0]
	d := c.details
	var occurrences, days int
	recurring := false
	seen := map[uuid.UUID]bool{}
gather:
	for _, s := range same {
		recurring = recurring || s.recurring
		for _, h := range s.holdings {
			instance := s.instance(c.key, h, m.window)
			if seen[instance.ID] {
				continue // the same event twice on the page
			}
			seen[instance.ID] = true
			if occurrences += len(instance.Occurrences); occurrences > maxOccurrences {
				m.note(collect.NoteTruncated, "%q has more than %d occurrences, the rest was left out", markup.Shorten(c.title, 80), maxOccurrences)
				break gather
			}
			days = max(days, h.when.Days(s.loc))
			d.Instances = append(d.Instances, instance)
		}
	}
	slices.SortFunc(d.Instances, byStart)

	d.Time = happening.Time{TemporalPattern: happening.Singular, Timezone: c.loc.String(), DisplayText: timing.Words(spans(d.Instances), c.loc)}
	switch {
	case recurring || len(d.Instances) > 1:
		d.Time.TemporalPattern = happening.Recurring
	case c.isOngoing(days):
		d.Time.TemporalPattern = happening.Ongoing
	}
	return collect.Observation{Key: c.key, Keys: c.keys, Details: d, PublishedAt: c.publishedAt}
}

// isOngoing says that something of so many days is open rather than held.
func (c *candidate) isOngoing(days int) bool {
	return days >= ongoingDays || c.exhibition && days >= exhibitionDays
}

// instance makes the instance of a holding.
func (c *candidate) instance(key string, h holding, w timing.Window) happening.Instance {
	original := h.when.Start
	if h.original != nil {
		original = *h.original
	}
	wall := original.In(c.loc)
	id := happening.DeriveInstanceID(key, happening.OriginalStart(wall))
	instance := happening.Instance{ID: id, Status: h.status}
	spans := h.when.Spans(c.loc, w)
	if c.isOngoing(h.when.Days(c.loc)) {
		spans = c.hours.Apply(spans, c.loc)
	}
	for _, s := range spans {
		o := happening.Occurrence{
			ID: happening.DeriveOccurrenceID(id, s.Day), Start: s.Start.UTC(), AllDay: s.AllDay, Status: h.status,
		}
		if s.End != nil {
			end := s.End.UTC()
			o.End = &end
		}
		instance.Occurrences = append(instance.Occurrences, o)
	}
	return instance
}

// spans gives the days of instances back for describing them.
func spans(instances []happening.Instance) [][]timing.Span {
	all := make([][]timing.Span, len(instances))
	for i, instance := range instances {
		for _, o := range instance.Occurrences {
			all[i] = append(all[i], timing.Span{Start: o.Start, End: o.End, AllDay: o.AllDay})
		}
	}
	return all
}
