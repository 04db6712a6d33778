package candidate

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/timing"
)

const (
	// ongoingDays is the length in days from which an event is ongoing, exhibitionDays the same for exhibitions.
	ongoingDays    = 28
	exhibitionDays = 7
	// occurrenceBytes is the size of an occurrence in memory.
	occurrenceBytes = 160
)

// observations returns one observation for all candidates of one key, in the order of the page.
func (o *observer) observations(candidates []*Candidate) []collect.Observation {
	byKey := map[string][]*Candidate{}
	var order []string
	for _, c := range candidates {
		if byKey[c.key] == nil {
			order = append(order, c.key)
		}
		byKey[c.key] = append(byKey[c.key], c)
	}
	if len(order) > o.Limit {
		o.notes.Add(collect.NoteTruncated, "the page shows %d events, of which %d are read", len(order), o.Limit)
		order = order[:o.Limit]
	}
	found := make([]collect.Observation, 0, len(order))
	for _, key := range order {
		if o.budget.Err() != nil {
			return nil
		}
		found = append(found, o.observation(byKey[key]))
	}
	return found
}

// observation combines the candidates of one key. The first one gives the shared details; the others complete it.
func (o *observer) observation(same []*Candidate) collect.Observation {
	c := same[0]
	version := c.Version
	for _, other := range same[1:] {
		version = max(version, other.Version)
		c.complete(other)
	}
	d := happening.Details{
		Title:            c.Title,
		Description:      c.Description,
		ShortDescription: c.ShortDescription,
		Capacity:         c.Capacity,
		Organizer:        c.Organizer,
		PrimaryURL:       c.primary,
		URLs:             c.urls,
		Location:         c.Where.location(c.primary),
		GeoLocations:     c.Where.geoLocations(),
	}
	if len(c.Images) > 0 {
		d.PrimaryImage, d.SupportingImages = c.Images[0], c.Images[1:min(len(c.Images), maxLinks)]
		if len(d.SupportingImages) == 0 {
			d.SupportingImages = nil
		}
	}
	loc, _, assumed := o.zone(c)
	if start := c.Holdings[0].When.Start; assumed && start.HasTime {
		o.notes.Add(collect.NoteAssumedTimezone, "%q names no timezone, and neither does the source: %s is assumed",
			markup.Shorten(c.Title, 80), loc)
	}
	var days int
	var recurring bool
	d.Instances, days, recurring = o.instances(same, loc)
	d.Time = happening.Time{TemporalPattern: happening.Singular, Timezone: loc.String(),
		DisplayText: timing.Words(spans(d.Instances), loc)}
	switch {
	case recurring || len(d.Instances) > 1:
		d.Time.TemporalPattern = happening.Recurring
	case c.isOngoing(days):
		d.Time.TemporalPattern = happening.Ongoing
	}
	standing := happening.FromListing
	if slices.ContainsFunc(same, func(c *Candidate) bool { return c.own }) {
		standing = happening.FromOwnPage
	}
	if c.translated {
		standing = happening.FromTranslation
	}
	return collect.Observation{
		Key:         c.key,
		Keys:        c.keys,
		Alias:       c.alias,
		Versions:    c.versions,
		Details:     d,
		PublishedAt: c.PublishedAt,
		Standing:    standing,
		Version:     version,
		Origins:     o.origins(c),
	}
}

// instances returns the instances of candidates of one key, in order, and the length of the longest in days. All are
// in the zone of the result. A time of a candidate with another zone is read in that one.
func (o *observer) instances(same []*Candidate, loc *time.Location) (instances []happening.Instance, days int,
	recurring bool) {
	occurrences, holdings := 0, 0
	for _, s := range same {
		holdings += len(s.Holdings)
	}
	holdings = min(holdings, maxOccurrences)
	seen := make(map[uuid.UUID]bool, holdings)
	instances = make([]happening.Instance, 0, holdings)
gather:
	for _, s := range same {
		recurring = recurring || s.Recurring
		read, own := loc, false
		if s != same[0] {
			if read, own, _ = o.zone(s); !own {
				read = loc
			}
		}
		for _, h := range s.Holdings {
			if h.When = h.on(read); own && read.String() != loc.String() {
				h.When = h.When.Anchor(read)
			}
			period := h.When.In(loc)
			if s.isSeries(period) {
				period, recurring = h.When.FirstDay(loc).In(loc), true // the other dates are not known
			}
			instance, held := o.instance(s, same[0].key, h, period)
			if len(instance.Occurrences) == 0 || seen[instance.ID] {
				continue // the same event twice on the page
			}
			seen[instance.ID] = true
			if occurrences += len(instance.Occurrences); occurrences > maxOccurrences {
				o.notes.Add(collect.NoteTruncated, "%q has more than %d occurrences, the rest was left out",
					markup.Shorten(same[0].Title, 80), maxOccurrences)
				break gather
			}
			days = max(days, held)
			instances = append(instances, instance)
		}
	}
	slices.SortFunc(instances, byStart)
	return instances, days, recurring
}

// byStart compares starts.
func byStart(a, b happening.Instance) int {
	return cmp.Or(a.Occurrences[0].Start.Compare(b.Occurrences[0].Start), bytes.Compare(a.ID[:], b.ID[:]))
}

// isOngoing reports whether an event of so many days is open rather than held.
func (c *Candidate) isOngoing(days int) bool {
	return days >= ongoingDays || c.Exhibition && days >= exhibitionDays
}

// isSeries reports whether a time has the first start and the last end of a series, rather than hours of each day.
func (c *Candidate) isSeries(when timing.Period) bool {
	return !c.Daily && (c.Series && when.Days() > 1 || when.IsCourse())
}

// instance returns the instance of a holding, and its length in days. It is empty if the budget has ended.
func (o *observer) instance(c *Candidate, key string, h Holding, period timing.Period) (happening.Instance, int) {
	days, loc := period.Days(), period.Location()
	if !o.budget.Work(20+20*min(days, maxOccurrences)) || !o.budget.Memory(occurrenceBytes*min(days, maxOccurrences)) {
		return happening.Instance{}, 0
	}
	original := h.When.Start
	if h.Original != nil {
		original = *h.Original
	}
	status := c.status(h)
	id := happening.DeriveInstanceID(key, happening.OriginalStart(original.In(loc)))
	spans := period.Spans(o.Window)
	instance := happening.Instance{ID: id, Status: status, Occurrences: make([]happening.Occurrence, 0, len(spans))}
	if c.isOngoing(days) {
		spans = c.Where.Hours.Apply(spans, loc)
	}
	for _, s := range spans {
		occurrence := happening.Occurrence{
			ID:     happening.DeriveOccurrenceID(id, s.Day),
			Start:  s.Start.UTC(),
			AllDay: s.AllDay,
			Status: status,
		}
		if s.End != nil {
			end := s.End.UTC()
			occurrence.End = &end
		}
		instance.Occurrences = append(instance.Occurrences, occurrence)
	}
	return instance, days
}

// status returns the status of a holding. The title has precedence over "scheduled", which many programs write for
// every event; a start that differs from the first one means rescheduled.
func (c *Candidate) status(h Holding) happening.Status {
	switch {
	case h.Status != "" && h.Status != happening.Scheduled:
		return h.Status
	case c.remark.Status != "":
		return c.remark.Status
	case h.Original != nil && h.Status == "" && !h.Original.Wall.Equal(h.When.Start.Wall):
		return happening.Rescheduled
	}
	return happening.Scheduled
}

// spans returns the days of instances for their description.
func spans(instances []happening.Instance) [][]timing.Span {
	all := make([][]timing.Span, len(instances))
	days := make([]timing.Span, 0, len(instances)) // most instances have one
	for i, instance := range instances {
		first := len(days)
		for _, o := range instance.Occurrences {
			days = append(days, timing.Span{Start: o.Start, End: o.End, AllDay: o.AllDay})
		}
		all[i] = days[first:len(days):len(days)]
	}
	return all
}

// origins returns the origins of a candidate, in the order of the fields.
func (o *observer) origins(c *Candidate) []collect.Origin {
	found := make([]collect.Origin, 0, len(c.Origins))
	for _, field := range collect.Fields {
		for _, origin := range c.Origins {
			if origin.Field == field {
				if origin.Page == "" {
					origin.Page = o.shown
				}
				found = append(found, origin)
			}
		}
	}
	return found
}
