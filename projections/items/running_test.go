package items_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/query"
)

// An occurrence is in a range that it overlaps: a concert stays in the default list until it is over, an all-day event
// for its day, and one that began weeks ago until its end.
func TestRunningEventsAreListed(t *testing.T) {
	t.Parallel()
	f := open(t)
	hours := func(from, to int) happening.Details {
		d := on("x", time.Duration(from)*time.Hour)
		end := now.Add(time.Duration(to) * time.Hour)
		d.Instances[0].Occurrences[0].End = &end
		return d
	}
	endless := hours(-1, 0)
	endless.Instances[0].Occurrences[0].End = nil
	allDay := hours(-12, 12)
	allDay.Instances[0].Occurrences[0].AllDay = true
	yesterday := hours(-36, -12)
	yesterday.Instances[0].Occurrences[0].AllDay = true
	tests := map[string]struct {
		details happening.Details
		since   time.Duration
		there   bool
	}{
		"a concert that has begun":        {hours(-1, 1), 0, true},
		"a concert that ends now":         {hours(-1, 0), 0, false},
		"a concert a microsecond earlier": {hours(-1, 0), -time.Microsecond, true},
		"all of today":                    {allDay, 0, true},
		"all of yesterday":                {yesterday, 0, false},
		"yesterday, as today begins":      {yesterday, -12 * time.Hour, false},
		"began a month ago":               {hours(-720, 24), 0, true},
		"endless, has begun":              {endless, 0, false},
		"endless, begins then":            {endless, -time.Hour, true},
		"begins at the range's end":       {hours(24*30, 24*30+1), 0, true},
		"begins after the range":          {hours(24*30+1, 24*30+2), 0, false},
	}
	ids := map[string]uuid.UUID{}
	for name, tt := range tests {
		ids[name] = uuid.New()
		f.add(ids[name], tt.details)
	}
	f.Project()
	for name, tt := range tests {
		for _, order := range []string{query.OrderByOccurrence, query.OrderByCreated} {
			for _, legacy := range []bool{false, true} {
				in := usual()
				in.Since, in.OrderBy, in.Legacy = now.Add(tt.since), order, legacy
				list, total := f.list(in)
				i := slices.IndexFunc(list, func(shown shownItem) bool { return shown.ID == item.ID(f.feed, ids[name]) })
				if (i >= 0) != tt.there || total != len(list) {
					t.Errorf("%s, by %s: at %d of %d, total %d", name, order, i, len(list), total)
				} else if i >= 0 && (list[i].Occurrence.Total != 1 || list[i].Occurrence.NextOccurrence == nil) {
					t.Errorf("%s, by %s: %+v", name, order, list[i].Occurrence)
				}
			}
		}
	}
}

// before does something once, before a statement that has some words.
type before struct {
	words string
	once  sync.Once
	do    func()
}

// TraceQueryStart implements pgx.QueryTracer.
func (b *before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, b.words) {
		b.once.Do(b.do)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*before) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// An item that comes between two statements of a list that is empty is in the next list, and in the one after it.
func TestAnItemThatComesWhileAnEmptyListIsRead(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"coalesce((SELECT version FROM items.feeds WHERE feed_id = $2)", "count("} {
		f := open(t)
		f.Project()
		config := f.Pool.Config()
		config.ConnConfig.Tracer = &before{words: words, do: func() {
			f.add(uuid.New(), on("Jazz", day))
			f.Project()
		}}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		f.Queries = &query.Queries{Pool: pool}
		f.list(usual()) // with it or without, as it comes
		for range 2 {
			if list, total := f.list(usual()); len(list) != 1 || total != 1 {
				t.Errorf("before %q: %d items of %d", words, len(list), total)
			}
		}
	}
}
