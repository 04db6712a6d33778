package collect

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"
)

// Frontier is how far a walk is: which pages are ahead.
type Frontier interface {
	// Next gives the page to read now. At the walk's end there is none.
	Next(ctx context.Context) (page Known, ok bool, err error)
}

// Visited is a page that a walk has come to.
type Visited struct {
	Known Known
	Page  Page
	// Err is why the page could not be read; then Page is empty.
	Err error
}

// Walk goes through a source's pages. Whoever walks records each page in the frontier before the next is asked for: in
// the body of its loop. The error is the frontier's, the context's, or one after which nothing else of the source can
// be had now, see [Stops]; the walk ends with it, and Visited names the page, which is still ahead.
func Walk(ctx context.Context, collector Collector, source Source, frontier Frontier) iter.Seq2[Visited, error] {
	return func(yield func(Visited, error) bool) {
		for {
			known, ok, err := frontier.Next(ctx)
			if !ok && err == nil {
				return
			}
			visited := Visited{Known: known}
			if err == nil {
				visited.Page, visited.Err = collector.Read(ctx, source, known)
				visited.Page.Partial = visited.Page.Partial || visited.Page.Notes.Partial()
				if Stops(visited.Err) {
					visited.Page, visited.Err, err = Page{}, nil, visited.Err
				}
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
			}
			if !yield(visited, err) || err != nil {
				return
			}
		}
	}
}

// Gone says that a page is no more.
func Gone(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusGone)
}

// Stops says that after this failure of a page no other of the source can be had now: the host wants to be left alone,
// the platform lets nobody in, or it is for ourselves that nothing goes.
func Stops(err error) bool {
	var status *StatusError
	if errors.As(err, &status) && (status.Code == http.StatusTooManyRequests ||
		status.Code == http.StatusServiceUnavailable) {
		return true
	}
	return errors.Is(err, ErrResting) || errors.Is(err, ErrNeedsCredentials) || errors.Is(err, ErrUnavailable)
}

const (
	// barrenPause is how long a page that showed nothing is left alone at first, twice as long each time.
	barrenPause    = 12 * time.Hour
	maxBarrenPause = 60 * 24 * time.Hour
	// lastmodPause is after when a page is asked for although its list says that it has not changed: lists err.
	lastmodPause = 30 * 24 * time.Hour
	// hasteShare is by how much sooner than else a page is asked for that shows nothing to come, where its list says that
	// it has changed: there are lists that say so of all pages at all times. It waits maxHaste at the most.
	hasteShare = 4
	maxHaste   = 24 * time.Hour
)

// Ahead says whether a walk has to ask for a page that a list links, by what is remembered of it, and how early: the
// lower, the sooner. Lists come first, then pages with happenings to come, then those that were never read.
func Ahead(link Link, known Known, now time.Time) (rank int, ahead bool) {
	const list, current, unread, over, barren = 0, 1, 2, 3, 4
	switch {
	case link.List:
		return list, true
	case known.ReadAt.IsZero() && known.AskedAt.IsZero():
		return unread, true
	}
	dated := link.Modified != "" && !toCome(link.Modified, now)
	changed := dated && link.Modified != known.ReadModified
	rested := func(pause time.Duration) bool {
		return !now.Before(known.AskedAt.Add(pause))
	}
	idle := func(pause time.Duration) bool {
		return rested(pause) || changed && rested(min(pause/hasteShare, maxHaste))
	}
	switch {
	case known.ReadAt.IsZero(): // it could not be read the last time
		return unread, changed || rested(barrenPause/4)
	case known.Shown > 0 && known.Until.After(now):
		return current, changed || !dated || rested(lastmodPause)
	case known.Shown > 0:
		return over, idle(barrenPause)
	default:
		return barren, idle(min(barrenPause<<min(max(known.Barren-1, 0), 20), maxBarrenPause))
	}
}

// toCome says that a page is said to have changed on a day that is still to come: that is some other date, and says
// nothing.
func toCome(modified string, now time.Time) bool {
	day, err := time.Parse(time.DateOnly, modified[:min(len(modified), len(time.DateOnly))])
	return err == nil && day.After(now.Add(24*time.Hour)) // whatever the zone
}
