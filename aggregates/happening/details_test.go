package happening_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func ptr[T any](v T) *T { return &v }

// filled returns details with every field set.
func filled() happening.Details {
	start := time.Date(2027, 3, 5, 19, 0, 0, 0, time.UTC)
	instance := happening.DeriveInstanceID("url:https://a.example/e", happening.OriginalStart(start))
	return happening.Details{
		Title:            "Jazz night",
		Description:      "<p>Three bands</p>",
		ShortDescription: "Three bands",
		Time: happening.Time{TemporalPattern: happening.Singular, Timezone: "Europe/Copenhagen",
			DisplayText: "Fri 5 Mar 2027, 20:00"},
		Location: &happening.Location{
			Venue:          &happening.Venue{Name: "Kajhallen", Address: "Havnegade 1"},
			Coordinates:    &happening.Coordinates{Lat: 56.1, Lng: 10.2},
			Online:         &happening.Online{Platform: "Zoom", URL: "https://zoom.us/j/1"},
			DisplayAddress: "Kajhallen, Havnegade 1",
		},
		Capacity:         &happening.Capacity{Total: ptr(100), Available: ptr(5), Unlimited: true},
		Organizer:        &happening.Organizer{Name: "Kajhallen", URL: "https://a.example", Contact: "post@a.example"},
		PrimaryImage:     "https://a.example/1.jpg",
		SupportingImages: []string{"https://a.example/2.jpg"},
		PrimaryURL:       "https://a.example/e",
		URLs:             []string{"https://a.example/e"},
		GeoLocations:     []happening.GeoLocation{happening.NewGeoLocation("Kajhallen", happening.AtLocation, 100)},
		Instances: []happening.Instance{{ID: instance, Status: happening.Scheduled, Occurrences: []happening.Occurrence{{
			ID:     happening.DeriveOccurrenceID(instance, 0),
			Start:  start,
			End:    ptr(start.Add(3 * time.Hour)),
			AllDay: true,
			Status: happening.Scheduled,
		}}}},
	}
}

// mutations calls visit once for each leaf below v, with that leaf changed.
func mutations(path string, v reflect.Value, visit func(path string)) {
	change := func(to reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.Set(to)
		visit(path)
		v.Set(old)
	}
	switch x := v.Interface().(type) {
	case time.Time:
		change(reflect.ValueOf(x.Add(time.Minute)))
		return
	case uuid.UUID:
		change(reflect.ValueOf(uuid.Max))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			mutations(path+"."+v.Type().Field(i).Name, v.Field(i), visit)
		}
	case reflect.Pointer:
		change(reflect.Zero(v.Type()))
		mutations(path, v.Elem(), visit)
	case reflect.Slice:
		change(reflect.Zero(v.Type()))
		mutations(path+"[0]", v.Index(0), visit)
	case reflect.String:
		change(reflect.ValueOf(v.String() + "x").Convert(v.Type()))
	case reflect.Bool:
		change(reflect.ValueOf(!v.Bool()))
	case reflect.Int:
		change(reflect.ValueOf(int(v.Int()) + 1))
	case reflect.Float64:
		change(reflect.ValueOf(v.Float() + 1))
	default:
		panic("no mutation for " + path + ", a " + v.Kind().String())
	}
}

func TestEqualSeesEveryField(t *testing.T) {
	t.Parallel()
	d := filled()
	changed := 0
	mutations("Details", reflect.ValueOf(&d).Elem(), func(path string) {
		changed++
		assert.True(t, !d.Equal(filled()) && !filled().Equal(d), "a change of %s goes unseen", path)
	})
	must.True(t, d.Equal(filled()) && changed >= 40, "%d mutations tried, and after undoing them %+v", changed, d)
}

func TestEqual_ignoresNotation(t *testing.T) {
	t.Parallel()
	d, o := filled(), filled()
	o.Instances[0].Occurrences[0].Start = o.Instances[0].Occurrences[0].Start.In(time.FixedZone("", 3600))
	d.URLs, o.URLs = nil, []string{}
	assert.True(t, d.Equal(o), "the same instant in another zone, or an empty slice, counts as a change")
}

func TestDetailsSurviveStorage(t *testing.T) {
	t.Parallel()
	stored := must.Get(json.Marshal(filled()))(t)
	var back happening.Details
	must.OK(t, json.Unmarshal(stored, &back))
	if !back.Equal(filled()) {
		t.Error(cmp.Diff(filled(), back))
	}
}

func TestDerivedIDsNeverChange(t *testing.T) {
	t.Parallel()
	instance := happening.DeriveInstanceID("k", "2027-03-05T20:00:00")
	got := []string{
		happening.DeriveID("k").String(),
		instance.String(),
		happening.DeriveOccurrenceID(instance, 0).String(),
		happening.DeriveOccurrenceID(instance, 1).String(),
		happening.DeriveGeoLocationID("Kajhallen").String(),
	}
	want := []string{
		"e748d0c0-0001-58aa-aa3b-9fc872ce2791",
		"0214023e-371b-53f5-ae81-78a139e14cfe",
		"83ca7875-1580-5cd4-b8a2-4bb985ade93c",
		"e52502ab-8376-5a40-8973-77bbea5785ae",
		"040915e2-cb70-57d8-863e-3cde30282c03",
	}
	assert.Same(t, got, want)
}

// starting returns the details of a happening whose instances start at these times.
func starting(starts ...time.Time) happening.Details {
	d := happening.Details{Title: "x"}
	for _, s := range starts {
		id := happening.DeriveInstanceID("k", happening.OriginalStart(s))
		d.Instances = append(d.Instances, happening.Instance{ID: id, Status: happening.Scheduled,
			Occurrences: []happening.Occurrence{
				{ID: happening.DeriveOccurrenceID(id, 0), Start: s, Status: happening.Scheduled},
			}})
	}
	return d
}

// under returns the details with the ids of another key.
func under(key string, d happening.Details) happening.Details {
	for i := range d.Instances {
		instance := &d.Instances[i]
		instance.ID = happening.DeriveInstanceID(key, happening.OriginalStart(instance.Occurrences[0].Start))
		instance.Occurrences[0].ID = happening.DeriveOccurrenceID(instance.ID, 0)
	}
	return d
}

func TestKeepIDs(t *testing.T) {
	t.Parallel()
	at := func(day int) time.Time { return time.Date(2027, 3, day, 20, 0, 0, 0, time.UTC) }
	tests := []struct {
		name       string
		prev, next happening.Details
		kept       map[int]int // instance of next → instance of prev whose id it has
	}{
		{"one date moves", starting(at(10)), starting(at(12)), map[int]int{0: 0}},
		{"one of several moves", starting(at(10), at(17)), starting(at(10), at(18)), map[int]int{0: 0, 1: 1}},
		{"the past date is dropped as the next one appears", starting(at(1)), starting(at(12)), nil},
		{"a rolling list", starting(at(1), at(8)), starting(at(8), at(15)), map[int]int{0: 1}},
		{"by other evidence", starting(at(10), at(17)), under("other", starting(at(10), at(17))), map[int]int{0: 0, 1: 1}},
		{"by other evidence, and one moves", starting(at(10), at(17)), under("other", starting(at(10), at(18))),
			map[int]int{0: 0, 1: 1}},
		{"by other evidence, and there is one more", starting(at(10)), under("other", starting(at(10), at(18))),
			map[int]int{0: 0}},
		{"two at one time", starting(at(10), at(10)), under("other", starting(at(10), at(18))), map[int]int{0: 1}},
		{"two dates replaced by two others", starting(at(10), at(11)), starting(at(20), at(21)), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.next.KeepIDs(tt.prev, at(5))
			for i, instance := range got.Instances {
				want := tt.next.Instances[i].ID
				if j, ok := tt.kept[i]; ok {
					want = tt.prev.Instances[j].ID
				}
				assert.Equal(t, instance.ID, want, "instance %d has id", i)
				assert.Equal(t, instance.Occurrences[0].ID, happening.DeriveOccurrenceID(want, 0),
					"occurrence of instance %d does not follow its instance", i)
			}
			again := tt.next.KeepIDs(got, at(5))
			assert.True(t, again.Equal(got), "observing the same once more is a change")
		})
	}
}

// TestVersionedMoves reschedules what a later version starts at another time, and keeps that as long as it starts then.
func TestVersionedMoves(t *testing.T) {
	t.Parallel()
	details := func(version, hour int, status happening.Status) happening.Observe {
		d := concert("Concert", hour)
		d.Instances[0].Status, d.Instances[0].Occurrences[0].Status = status, status
		o := observe(d, block)
		o.Version = version
		return o
	}
	first := details(0, 20, happening.Scheduled)
	moved := details(1, 21, happening.Scheduled)
	for name, c := range map[string]struct {
		shown []happening.Observe
		want  happening.Status
	}{
		"moved by a later version": {[]happening.Observe{first, moved}, happening.Rescheduled},
		"moved by the same version": {[]happening.Observe{details(1, 20, happening.Scheduled), moved},
			happening.Scheduled},
		"a later version that moves nothing": {[]happening.Observe{first, details(1, 20, happening.Scheduled)},
			happening.Scheduled},
		"without versions": {[]happening.Observe{first, details(0, 21, happening.Scheduled)},
			happening.Scheduled},
		"cancelled when it was moved": {[]happening.Observe{first, details(1, 21, happening.Cancelled)},
			happening.Cancelled},
		"shown again": {
			[]happening.Observe{first, moved, moved, details(2, 21, happening.Scheduled)}, happening.Rescheduled,
		},
		"rescheduled by a page that took it back": {[]happening.Observe{details(0, 20, happening.Rescheduled), first},
			happening.Scheduled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream := aggregatetest.Stream(t, happening.Aggregate)
			var state happening.State
			for _, d := range c.shown {
				state = stream.When(d).State()
			}
			for _, sighting := range state.Sightings {
				if i := sighting.Details.Instances[0]; i.Status != c.want || i.Occurrences[0].Status != c.want {
					t.Errorf("%s, %s, want %s", i.Status, i.Occurrences[0].Status, c.want)
				}
			}
		})
	}
}

// The location's value has the venue, and the text that a page shows.
func TestValueOfLocation(t *testing.T) {
	t.Parallel()
	venue := &happening.Venue{Name: "Kajhallen"}
	d := happening.Details{Location: &happening.Location{Venue: venue, DisplayAddress: "Havnegade 1"}}
	assert.Equal(t, d.Value(happening.FieldLocation), any(happening.Location{Venue: venue, DisplayAddress: "Havnegade 1"}),
		"its location")
}
