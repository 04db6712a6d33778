package happening_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/happening"
	"carillon/eventstore/storetest/assert"
)

// monday is the time of most observations; the happenings are later.
var monday = time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)

// by returns a sighting of a source's own page.
func by(name string, details happening.Details) happening.Sighting {
	return happening.Sighting{
		SourceID: uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)),
		Standing: happening.FromOwnPage,
		Details:  details,
		Source:   happening.Block{Type: "site", URL: "https://" + name + ".example/"},
		Since:    monday,
		DatedAt:  monday,
	}
}

func standing(s happening.Standing, t happening.Sighting) happening.Sighting {
	t.Standing = s
	return t
}

func datedAt(at time.Time, t happening.Sighting) happening.Sighting {
	t.DatedAt = at
	return t
}

func gone(t happening.Sighting) happening.Sighting {
	t.Stale = true
	return t
}

// held returns a happening at the given times; a mere date is a whole day. A status may follow after a space.
func held(when ...string) happening.Details {
	d := happening.Details{Title: "Concert", Time: happening.Time{TemporalPattern: happening.Singular, Timezone: "UTC"}}
	for _, w := range when {
		w, status, _ := strings.Cut(w, " ")
		start, err := time.Parse("2006-01-02T15:04", w)
		o := happening.Occurrence{Start: start, Status: happening.Scheduled}
		if err != nil {
			if start, err = time.Parse(time.DateOnly, w); err != nil {
				panic(err)
			}
			end := start.AddDate(0, 0, 1)
			o = happening.Occurrence{
				Start:  start,
				End:    &end,
				AllDay: true,
				Status: happening.Scheduled,
			}
		}
		if status != "" {
			o.Status = happening.Status(status)
		}
		id := happening.DeriveInstanceID("concert", happening.OriginalStart(start))
		o.ID = happening.DeriveOccurrenceID(id, 0)
		d.Instances = append(d.Instances, happening.Instance{ID: id, Status: o.Status,
			Occurrences: []happening.Occurrence{o}})
	}
	if len(when) > 1 {
		d.Time.TemporalPattern = happening.Recurring
	}
	return d
}

// dates is the inverse of held.
func dates(d happening.Details) []string {
	var all []string
	for _, instance := range d.Instances {
		o := instance.Occurrences[0]
		form := "2006-01-02T15:04"
		if o.AllDay {
			form = time.DateOnly
		}
		text := o.Start.UTC().Format(form)
		if instance.Status != o.Status {
			text += " " + string(instance.Status) + "/" + string(o.Status)
		} else if o.Status != happening.Scheduled {
			text += " " + string(o.Status)
		}
		all = append(all, text)
	}
	return all
}

func TestDatesOfSeveralSightings(t *testing.T) {
	t.Parallel()
	tuesday := monday.AddDate(0, 0, 1)
	page, platform := happening.FromOwnPage, happening.FromPlatform
	list, post := happening.FromListing, happening.FromPost
	for name, c := range map[string]struct {
		sightings []happening.Sighting
		want      []string
	}{
		"the page's time before a listing's day": {
			[]happening.Sighting{
				standing(page, by("hall", held("2026-12-05T20:00"))),
				datedAt(tuesday, standing(list, by("town", held("2026-12-05")))),
			},
			[]string{"2026-12-05T20:00"},
		},
		"a listing's time before the page's mere day": {
			[]happening.Sighting{standing(page, by("hall", held("2026-12-05"))),
				standing(list, by("town", held("2026-12-05T20:00")))},
			[]string{"2026-12-05T20:00"},
		},
		"one day gives way to matinee and evening": {
			[]happening.Sighting{
				standing(page, by("hall", held("2026-12-05"))),
				standing(list, by("town", held("2026-12-05T15:00", "2026-12-05T20:00"))),
			},
			[]string{"2026-12-05T15:00", "2026-12-05T20:00"},
		},
		"doors and beginning are one start": {
			[]happening.Sighting{standing(page, by("hall", held("2026-12-05T20:00"))),
				standing(list, by("town", held("2026-12-05T19:30")))},
			[]string{"2026-12-05T20:00"},
		},
		"of equals the newest says when": {
			[]happening.Sighting{by("hall", held("2026-12-05T20:00")), datedAt(tuesday, by("band", held("2026-12-12T20:00")))},
			[]string{"2026-12-12T20:00"},
		},
		"a newer listing moves nothing": {
			[]happening.Sighting{
				standing(platform, by("hall", held("2026-12-05T20:00"))),
				datedAt(tuesday, standing(list, by("town", held("2026-12-12T20:00")))),
			},
			[]string{"2026-12-05T20:00"},
		},
		"dates of a series are added up": {
			[]happening.Sighting{
				by("hall", held("2026-12-05T20:00", "2026-12-06T20:00")),
				standing(list, by("town", held("2026-12-06T20:00", "2026-12-07T20:00"))),
			},
			[]string{"2026-12-05T20:00", "2026-12-06T20:00", "2026-12-07T20:00"},
		},
		"a series starts an hour early": {
			[]happening.Sighting{
				by("hall", held("2026-12-05T20:00", "2026-12-06T20:00")),
				standing(list, by("town", held("2026-12-05T19:00", "2026-12-06T19:00"))),
			},
			[]string{"2026-12-05T20:00", "2026-12-06T20:00"},
		},
		"a matinee beside the evening is added": {
			[]happening.Sighting{
				by("hall", held("2026-12-05T20:00")), standing(list, by("town", held("2026-12-05T15:00", "2026-12-05T20:00"))),
			},
			[]string{"2026-12-05T15:00", "2026-12-05T20:00"},
		},
		"stale pages add no date": {
			[]happening.Sighting{by("hall", held("2026-12-05T20:00")),
				gone(by("band", held("2026-12-05T20:00", "2026-12-06T20:00")))},
			[]string{"2026-12-05T20:00"},
		},
		"stale pages count if all are stale": {
			[]happening.Sighting{gone(by("hall", held("2026-12-05T20:00"))),
				gone(standing(post, by("band", held("2026-12-05"))))},
			[]string{"2026-12-05T20:00"},
		},
		"one says cancelled, one still shows it": {
			[]happening.Sighting{
				by("hall", held("2026-12-05T20:00 cancelled")), datedAt(tuesday, by("town", held("2026-12-05T20:00"))),
			},
			[]string{"2026-12-05T20:00 cancelled"},
		},
		"a listing says cancelled after the page was written": {
			[]happening.Sighting{
				by("hall", held("2026-12-05T20:00")), datedAt(tuesday, standing(list, by("town", held("2026-12-05 cancelled")))),
			},
			[]string{"2026-12-05T20:00 cancelled"},
		},
		"a listing said cancelled before the page changed": {
			[]happening.Sighting{
				datedAt(tuesday, by("hall", held("2026-12-05T20:00"))),
				standing(list, by("town", held("2026-12-05T20:00 cancelled"))),
			},
			[]string{"2026-12-05T20:00"},
		},
		"cancelled, and gone from the page since": {
			[]happening.Sighting{
				gone(by("hall", held("2026-12-05T20:00 cancelled"))), standing(list, by("town", held("2026-12-05T20:00"))),
			},
			[]string{"2026-12-05T20:00 cancelled"},
		},
		"one of a series is cancelled": {
			[]happening.Sighting{
				by("hall", held("2026-12-05T20:00", "2026-12-06T20:00")),
				standing(list, by("town", held("2026-12-06T20:00 cancelled"))),
			},
			[]string{"2026-12-05T20:00", "2026-12-06T20:00 cancelled"},
		},
		"cancelled on a day that is no longer its": {
			[]happening.Sighting{
				datedAt(tuesday, by("hall", held("2026-12-12T20:00"))), by("town", held("2026-12-05T20:00 cancelled")),
			},
			[]string{"2026-12-12T20:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Slices(t, dates(happening.Combine(c.sightings).Details), c.want, "dates")
		})
	}
}

// Two pages of a listing show one date each of a linked happening.
func TestPagesOfOneSourceAddUpDates(t *testing.T) {
	t.Parallel()
	first := standing(happening.FromListing, by("town", held("2026-12-05T20:00")))
	second := standing(happening.FromListing, by("town", held("2026-12-12T20:00")))
	first.Page, second.Page = "https://town.example/1", "https://town.example/2"
	got := happening.Combine([]happening.Sighting{first, second})
	if want := []string{"2026-12-05T20:00", "2026-12-12T20:00"}; !slices.Equal(dates(got.Details), want) {
		t.Errorf("got %v, want %v", dates(got.Details), want)
	}
	assert.Equal(t, got.Details.Time.TemporalPattern, happening.Recurring, "two dates")
}

// Ids of instances stay when their first sighting goes.
func TestInstancesKeepTheirIDs(t *testing.T) {
	t.Parallel()
	old := by("hall", held("2026-12-05T20:00"))
	renamed := by("band", held("2026-12-05T20:00"))
	renamed.Since = monday.AddDate(0, 0, 1)
	renamed.Standing = happening.FromPlatform
	id := uuid.MustParse("99999999-9999-4999-8999-999999999999")
	renamed.Details.Instances[0].ID = id
	for _, sightings := range [][]happening.Sighting{{old, renamed}, {gone(old), renamed},
		{old, datedAt(monday.AddDate(0, 0, 2), renamed)}} {
		got := happening.Combine(sightings).Details.Instances[0]
		assert.True(t, got.ID == old.Details.Instances[0].ID &&
			got.Occurrences[0].ID == old.Details.Instances[0].Occurrences[0].ID, "the instance got the id %s", got.ID)
	}
}

func TestFieldsOfSeveralSightings(t *testing.T) {
	t.Parallel()
	five := 5
	end := time.Date(2026, 12, 5, 22, 0, 0, 0, time.UTC)
	page := by("hall", held("2026-12-05T20:00"))
	page.Details.Title, page.Details.Description = "Brahms: Requiem", "<p>With choir.</p>"
	page.Details.Location = &happening.Location{Venue: &happening.Venue{Name: "Town hall"}, DisplayAddress: "Town hall"}
	page.Details.PrimaryImage = "https://hall.example/a.jpg"
	page.Details.PrimaryURL, page.Details.URLs = "https://hall.example/1", []string{"https://hall.example/1"}
	page.Origins = []happening.Origin{{Page: "https://hall.example/1", Syntax: "json-ld",
		Paths: map[happening.Field]string{
			happening.FieldTitle: "Event.name", happening.FieldImage: "Event.image",
		}}}

	list := standing(happening.FromListing, by("town", held("2026-12-05")))
	list.Details.Title, list.Details.Description = "Requiem", "<p>With the great choir of the town, and soloists.</p>"
	list.Details.Location = &happening.Location{
		Venue:          &happening.Venue{Name: "TOWN HALL, great hall", Address: "1 Square, Town"},
		DisplayAddress: "Town hall, 1 Square, Town",
		Coordinates:    &happening.Coordinates{Lat: 46.5, Lng: 11.35},
	}
	list.Details.Capacity = &happening.Capacity{Total: &five}
	list.Details.PrimaryImage, list.Details.SupportingImages = "https://town.example/b.jpg",
		[]string{"https://town.example/c.jpg"}
	list.Details.PrimaryURL, list.Details.URLs = "https://town.example/9", []string{"https://town.example/9",
		"https://hall.example/1"}
	list.Origins = []happening.Origin{{Page: "https://town.example/", Syntax: "rdfa", Paths: map[happening.Field]string{
		happening.FieldTitle: "Event.name", happening.FieldImage: "Event.image",
		happening.FieldDescription: "Event.description",
	}}}

	early, late := end.AddDate(0, -2, 0), end.AddDate(0, -1, 0)
	page.PublishedAt, list.PublishedAt = &late, &early

	post := standing(happening.FromPost, by("band", held("2026-12-05T20:00")))
	post.Details.Title, post.Details.Description = "See you!", "<p>"+strings.Repeat("We look forward to it so much. ", 20)+
		"</p>"
	post.Details.Organizer = &happening.Organizer{Name: "The Band"}
	post.Details.Instances[0].Occurrences[0].End = &end
	post.Details.Location = &happening.Location{Venue: &happening.Venue{Name: "Elsewhere", Address: "Moon"},
		DisplayAddress: "Moon"}

	region := func(names ...string) (all []happening.GeoLocation) {
		for _, name := range names {
			all = append(all, happening.NewGeoLocation(name, happening.AtLocation, 100))
		}
		return all
	}
	page.Details.GeoLocations, list.Details.GeoLocations = region("Town", "Valley"), region("Town")
	post.Details.GeoLocations = region("Moon", "Space", "Far") // of another place

	got := happening.Combine([]happening.Sighting{post, list, page})
	want := held("2026-12-05T20:00")
	want.GeoLocations = page.Details.GeoLocations
	want.Title, want.Description = page.Details.Title, list.Details.Description
	want.Location = &happening.Location{
		Venue: &happening.Venue{Name: "Town hall", Address: "1 Square, Town"}, DisplayAddress: "Town hall, 1 Square, Town",
		Coordinates: &happening.Coordinates{Lat: 46.5, Lng: 11.35},
	}
	want.Capacity, want.Organizer = list.Details.Capacity, post.Details.Organizer
	want.PrimaryImage, want.SupportingImages = list.Details.PrimaryImage, list.Details.SupportingImages
	want.PrimaryURL, want.URLs = page.Details.PrimaryURL, []string{"https://hall.example/1", "https://town.example/9"}
	want.Instances[0].Occurrences[0].End = &end
	assert.Same(t, got.Details, want)
	assert.True(t, got.PublishedAt != nil && got.PublishedAt.Equal(early),
		"published at %v, want the earliest time", got.PublishedAt)
	assert.True(t, got.Source == page.Source && got.Standing == happening.FromOwnPage,
		"it is said to be of %+v, %d", got.Source, got.Standing)
	wantOrigins := []happening.Origin{
		{Page: "https://hall.example/1", Syntax: "json-ld",
			Paths: map[happening.Field]string{happening.FieldTitle: "Event.name"}},
		{Page: "https://town.example/", Syntax: "rdfa", Paths: map[happening.Field]string{
			happening.FieldDescription: "Event.description", happening.FieldImage: "Event.image",
		}},
	}
	assert.Same(t, got.Origins, wantOrigins)
	assert.Slices(t, got.GivenBy(happening.FieldOrganizer), []int{0}, "the organizer is given by")
}

// anySighting draws from few values, so that sightings agree and disagree.
func anySighting(t *rapid.T, name string) happening.Sighting {
	pick := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name+" "+label) }
	starts := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"2026-12-05", "2026-12-05T15:00", "2026-12-05T19:30", "2026-12-05T20:00", "2026-12-05T20:00 cancelled",
		"2026-12-06T20:00", "2026-12-06", "2026-12-12T20:00", "2026-12-12T20:00 rescheduled",
	}), 1, 3, func(s string) string { s, _, _ = strings.Cut(s, " "); return s }).Draw(t, name+" starts")
	slices.Sort(starts)
	d := held(starts...)
	d.Title, d.Description = pick("title", "Concert", "Concert with choir"), pick("description", "", "<p>Short</p>",
		"<p>Much longer</p>")
	d.PrimaryImage = pick("image", "", "https://a.example/1.jpg", "https://a.example/2.jpg")
	d.PrimaryURL = pick("url", "", "https://a.example/", "https://b.example/")
	if d.PrimaryURL != "" {
		d.URLs = []string{d.PrimaryURL}
	}
	if venue := pick("venue", "", "Hall", "Great hall", "Park"); venue != "" {
		d.Location = &happening.Location{Venue: &happening.Venue{Name: venue, Address: pick("address", "", "1 Square")},
			DisplayAddress: venue}
	}
	sighting := by(name, d)
	sighting.Page = pick("page", "", "https://a.example/p")
	sighting.Standing = happening.Standing(rapid.IntRange(0, 4).Draw(t, name+" standing"))
	sighting.Stale = rapid.IntRange(0, 3).Draw(t, name+" stale") == 0
	sighting.Since = monday.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, name+" since")) * time.Hour)
	sighting.DatedAt = sighting.Since.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, name+" dated")) * time.Hour)
	return sighting
}

func anySightings(t *rapid.T) []happening.Sighting {
	names := []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(1, 5).Draw(t, "tellings")]
	all := make([]happening.Sighting, 0, len(names))
	for _, name := range names {
		all = append(all, anySighting(t, name))
	}
	return all
}

func TestCombiningHasNoOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := anySightings(t)
		first := happening.Combine(all)
		again := happening.Combine(rapid.Permutation(all).Draw(t, "order"))
		if diff := cmp.Diff(first.Details, again.Details); diff != "" || first.Source != again.Source {
			t.Fatalf("another order, another result:\n%s", diff)
		}
	})
}

// A sighting with the combined details changes nothing, and a single sighting is unchanged.
func TestCombiningIsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := anySightings(t)
		once := happening.Combine(all)
		if alone := happening.Combine(all[:1]); !alone.Details.Equal(all[0].Details) {
			t.Fatalf("alone: %s", cmp.Diff(all[0].Details, alone.Details))
		}
		twin := all[0]
		twin.Page += "?again"
		if twice := happening.Combine([]happening.Sighting{all[0], twin}); !twice.Details.Equal(all[0].Details) {
			t.Fatalf("observed twice: %s", cmp.Diff(all[0].Details, twice.Details))
		}
		echo := by("echo", once.Details) // has the lowest precedence
		echo.Standing, echo.Since, echo.DatedAt = happening.FromPost, monday.AddDate(1, 0, 0), monday.AddDate(-1, 0, 0)
		if slices.ContainsFunc(all, func(sighting happening.Sighting) bool { return !sighting.Stale }) {
			if again := happening.Combine(append(all, echo)); !again.Details.Equal(once.Details) {
				t.Fatalf("observed with lowest precedence: %s", cmp.Diff(once.Details, again.Details))
			}
		}
	})
}
