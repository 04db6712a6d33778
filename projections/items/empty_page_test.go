package items_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/query"
)

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
