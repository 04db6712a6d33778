package visiting

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/collect"
)

// shaky is a walk of one page that panics at one place.
type shaky struct {
	Walk

	place, panicked string
	read            bool
	left            []Next
}

func (s *shaky) at(place string) {
	if s.place == place {
		s.panicked = place
		panic("planted")
	}
}

func (s *shaky) Take(context.Context, int, []string) ([]Turn, error)    { return nil, nil }
func (s *shaky) Hold(context.Context, []uuid.UUID) ([]uuid.UUID, error) { return nil, nil }
func (s *shaky) Begin(context.Context, []collect.Link) error            { s.at("begin"); return nil }
func (s *shaky) Waiting(context.Context) ([]View, error)                { s.at("compare"); return nil, nil }
func (s *shaky) Conclude(context.Context) error                         { s.at("conclude"); return nil }
func (s *shaky) Result(context.Context) (Result, error)                 { s.at("result"); return Result{}, nil }
func (s *shaky) Identify(context.Context, collect.Known, []uuid.UUID) ([]Shown, error) {
	return nil, nil
}
func (s *shaky) Record(context.Context, collect.Visited, []Telling, Tally) error {
	s.at("record")
	return nil
}

func (s *shaky) Untold(context.Context, collect.Known, []uuid.UUID) ([]Shown, error) {
	return nil, nil
}

func (s *shaky) Next(context.Context) (page collect.Known, ok bool, err error) {
	s.at("next")
	ok, s.read = !s.read, true
	return page, ok, nil
}

func (s *shaky) Leave(_ context.Context, next Next) error {
	s.left = append(s.left, next)
	return nil
}

// walks hands out one walk.
type walks struct{ *shaky }

func (w walks) Walk(Turn) Walk { return w.shaky }

// blank is a collector of one page that shows nothing.
type blank struct{ collect.Collector }

func (blank) Start(collect.Source) []collect.Link { return nil }
func (blank) Read(context.Context, collect.Source, collect.Known) (collect.Page, error) {
	return collect.Page{}, nil
}

// A visit that panics while it is recorded is left, and made again a while later.
func TestVisit_survivesAPanic(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"begin", "compare", "next", "record", "conclude", "result"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			walk, outcomes := &shaky{place: place}, 0
			m := &Monitor{
				Now:        time.Now,
				Log:        slog.New(slog.DiscardHandler),
				Walks:      walks{walk},
				Collectors: map[string]collect.Collector{"web": blank{}},
				Slice:      time.Hour,
				Pages:      10,
				Visited:    func(string, string) { outcomes++ },
			}
			m.newVisit(Turn{Source: collect.Source{ID: uuid.New(), Type: "web"}, Fresh: true}).run(t.Context())
			if len(walk.left) != 1 || walk.left[0].In != pauseAfterTrouble || walk.left[0].Over || outcomes != 1 {
				t.Errorf("left with %+v, %d outcomes", walk.left, outcomes)
			}
			if panicked := walk.panicked; panicked != place {
				t.Errorf("it panicked at %q", panicked)
			}
		})
	}
}
