package collect

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"
)

// Frontier has the pages ahead of a walk.
type Frontier interface {
	// Next returns the next page. ok is false at the end of the walk.
	Next(ctx context.Context) (page Known, ok bool, err error)
}

// Visited is a page that a walk has reached.
type Visited struct {
	Known Known
	Page  Page
	// Err is the reason why the page could not be read; then Page is empty.
	Err error
}

// Walk iterates over a source's pages. The caller records each page in the frontier in the body of its loop. The error
// is the frontier's, the context's, or one after which nothing else of the source is available, see [Stops]; the walk
// ends with it, and Visited names the page, which is still ahead.
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

// Gone reports whether a page no longer exists.
func Gone(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusGone)
}

// Stops reports whether no other page of the source is available after this failure: the host asks for a pause, the
// platform refuses access, or this server has a failure.
func Stops(err error) bool {
	var status *StatusError
	if errors.As(err, &status) && (status.Code == http.StatusTooManyRequests ||
		status.Code == http.StatusServiceUnavailable) {
		return true
	}
	return errors.Is(err, ErrResting) || errors.Is(err, ErrNeedsCredentials) || errors.Is(err, ErrUnavailable)
}

const (
	// barrenPause is the first pause of a page without happenings. It doubles each time.
	barrenPause    = 12 * time.Hour
	maxBarrenPause = 60 * 24 * time.Hour
	// lastmodPause is the time after which a page is fetched although its list reports no change, because lists err.
	lastmodPause = 30 * 24 * time.Hour
	// hasteShare is the part of its pause that a page without happenings ahead waits if its list reports a change,
	// maxHaste at the most, because some lists report changes of all pages at all times.
	hasteShare = 4
	maxHaste   = 24 * time.Hour
)

// Ahead reports whether a walk has to fetch a linked page, by its stored state, and its rank: lower ones come first.
// Lists precede pages with happenings to come, which precede unread pages.
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
	case known.ReadAt.IsZero(): // the last reading failed
		return unread, changed || rested(barrenPause/4)
	case known.Shown > 0 && known.Until.After(now):
		return current, changed || !dated || rested(lastmodPause)
	case known.Shown > 0:
		return over, idle(barrenPause)
	default:
		return barren, idle(min(barrenPause<<min(max(known.Barren-1, 0), 20), maxBarrenPause))
	}
}

// toCome reports whether the time of a change lies in the future, so that it is meaningless.
func toCome(modified string, now time.Time) bool {
	day, err := time.Parse(time.DateOnly, modified[:min(len(modified), len(time.DateOnly))])
	return err == nil && day.After(now.Add(24*time.Hour)) // in any zone
}
