package items

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item/shape"
	"carillon/projections/column"
)

// An item's relevance is how well its words meet those of its feed, by ts_rank of Postgres, from 0 to 1: the mean of
// its rank for the feed's name and of its rank for the feed's description. A rank for many words is the mean over them;
// a word counts the more the more often it is there, and in the title more than elsewhere. Of words without meaning,
// such as articles, a feed may have nothing else: then its items have no relevance.
//
// Words are compared by their stems, in the language that the feed is described in: the one of which most stop words
// are there. Of languages alike, the first of languages is taken; without stop words, each word is its own stem. An
// item in another language than its feed's is read by the same rules: words spelt alike, names above all, are found.
//
// The words are found here and not by Postgres, whose letters depend on its locale, and which takes longer than all
// other work on an item. So it gets nothing but the words that the feed has, too.

// simple is the language of feeds in which no stop word is found.
const simple = "simple"

// languages are those that Postgres has stop words for.
var languages = []string{
	"english", "german", "french", "italian", "spanish", "portuguese", "dutch", "danish", "swedish",
	"norwegian", "finnish",
	"hungarian", "russian", "turkish",
}

// mostWanted is how many words of a feed's name, and of its description, are looked for: the first ones.
const mostWanted = 64

// wanted holds the stems that the items of a feed are ranked by.
type wanted struct {
	language            string
	name, description   []string
	byName, byDescribed string // as tsquery
}

// wants reports whether there is anything to rank by.
func (w *wanted) wants() bool { return w != nil && len(w.name)+len(w.description) > 0 }

func newWanted(language string, name, description []string) *wanted {
	either := func(stems []string) string { return strings.Join(stems, " | ") }
	return &wanted{language, name, description, either(name), either(description)}
}

const (
	// readLanguage takes $1 words and $2 dictionaries, and returns for each of them how many of the words are stop words.
	readLanguage = `SELECT (SELECT count(*) FROM unnest($1::text[]) AS word WHERE ts_lexize(d.name::regdictionary, word) =
		'{}')
		FROM unnest($2::text[]) WITH ORDINALITY AS d (name, place) ORDER BY place`
	// readStems takes $1 a dictionary and $2 words. A stop word has none.
	readStems = `SELECT coalesce((ts_lexize($1::text::regdictionary, word))[1], '')
		FROM unnest($2::text[]) WITH ORDINALITY AS w (word, place) ORDER BY place`

	writeWanted = `INSERT INTO wanted AS w (feed_id, language, by_name, by_description) VALUES ($1, $2, $3, $4)
		ON CONFLICT (feed_id) DO UPDATE SET language = excluded.language, by_name = excluded.by_name,
		by_description = excluded.by_description
			WHERE (w.language, w.by_name, w.by_description) IS DISTINCT
			FROM (excluded.language, excluded.by_name, excluded.by_description)`

	// readRanks takes $1 words of items, $2 what of the feed's name is wanted, $3 what of its description. The weights are
	// those of places and organizers, descriptions, short descriptions, titles.
	readRanks = `SELECT round(least(1, CASE WHEN name = '' THEN of_description WHEN description = '' THEN of_name
		ELSE (of_name + of_description) / 2 END)::numeric, 4)::real
		FROM (SELECT words::tsvector, name, description, place
				FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS i (words, name, description, place) OFFSET 0) i,
			LATERAL (SELECT ts_rank('{0.3, 0.4, 0.6, 1}', words, name::tsquery) AS of_name,
				ts_rank('{0.3, 0.4, 0.6, 1}', words, description::tsquery) AS of_description) r
		ORDER BY place` // OFFSET 0: the words are parsed once
)

func dictionary(language string) string { return "pg_catalog." + language + "_stem" }

// want ranks the items of a feed by its name and description from now on. It reports whether that is something else
// than before.
func want(ctx context.Context, tx pgx.Tx, id uuid.UUID, s feed.Settings) (changed bool, err error) {
	var all vocabulary
	name := all.add(nil, textBy(func(r *reader) { r.add(s.Name, inTitle) }))
	description := all.add(nil, textBy(func(r *reader) { r.add(s.Description, inTitle) }))
	language, err := all.language(ctx, tx)
	if err != nil {
		return false, err
	}
	stems, err := all.stems(ctx, tx, language)
	if err != nil {
		return false, err
	}
	first := func(of []word) []string {
		found := []string{}
		for _, w := range of {
			if stem := stems[w.number]; stem != "" && !slices.Contains(found, stem) && len(found) < mostWanted {
				found = append(found, stem)
			}
		}
		return found
	}
	tag, err := tx.Exec(ctx, writeWanted, id, language, first(name), first(description))
	return tag.RowsAffected() > 0, err
}

// language is the one of most stop words.
func (v *vocabulary) language(ctx context.Context, tx pgx.Tx) (string, error) {
	if len(v.words) == 0 {
		return simple, nil
	}
	dictionaries := make([]string, len(languages))
	for i, language := range languages {
		dictionaries[i] = dictionary(language)
	}
	rows, err := tx.Query(ctx, readLanguage, v.words, dictionaries)
	if err != nil {
		return "", err
	}
	counts, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return "", fmt.Errorf("language: %w", err)
	}
	if most := slices.Max(counts); most > 0 {
		return languages[slices.Index(counts, most)], nil
	}
	return simple, nil
}

// stems are those of all words by number. A stop word has none.
func (v *vocabulary) stems(ctx context.Context, tx pgx.Tx, language string) (stems []string, err error) {
	if language == simple || len(v.words) == 0 {
		return v.words, nil
	}
	batch := &pgx.Batch{}
	batch.Queue(readStems, dictionary(language), v.words).Query(func(rows pgx.Rows) error {
		stems, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("stems: %w", err)
	}
	return stems, nil
}

// ranking are items whose relevance is asked for.
type ranking struct {
	vocabulary

	feeds []uuid.UUID
	ends  []int // of the words of each item
	all   []word
}

// textOf are the words of an item.
func textOf(d *happening.Details) text {
	return textBy(func(r *reader) {
		r.add(d.Title, inTitle)
		r.add(d.ShortDescription, inSummary)
		r.add(d.Description, inDescription)
		if l := shape.Located(d.Location); l != nil {
			if r.add(l.DisplayAddress, beside); l.Venue != nil {
				r.add(l.Venue.Name, beside)
				r.add(l.Venue.Address, beside)
			}
		}
		if d.Organizer != nil {
			r.add(d.Organizer.Name, beside)
		}
	})
}

func (r *ranking) add(feed uuid.UUID, t text) {
	r.all = r.vocabulary.add(r.all, t)
	r.feeds, r.ends = append(r.feeds, feed), append(r.ends, len(r.all))
}

// asked is the query for the items of a feed. Many have the same words of their feed's.
type asked struct {
	sought  stemSet
	answers map[string]*float32 // by the words
}

// rank returns the relevance of each item; nil if there is none.
func (r *ranking) rank(ctx context.Context, tx pgx.Tx, wants map[uuid.UUID]*wanted) ([]*float32, error) {
	relevance := make([]*float32, len(r.feeds))
	tongues := map[string]*tongue{}
	asking := map[uuid.UUID]*asked{}
	var answers []*float32
	var words, names, descriptions []string
	begin := 0
	for i, feed := range r.feeds {
		of := r.all[begin:r.ends[i]]
		begin = r.ends[i]
		w := wants[feed]
		if !w.wants() {
			continue
		}
		in := tongues[w.language]
		if in == nil {
			stems, err := r.stems(ctx, tx, w.language)
			if err != nil {
				return nil, err
			}
			in = newTongue(stems)
			tongues[w.language] = in
		}
		a := asking[feed]
		if a == nil {
			a = &asked{in.set(w.name, w.description), map[string]*float32{}}
			asking[feed] = a
		}
		shared := in.shared(of, a.sought)
		answer := a.answers[string(shared)]
		if answer == nil {
			answer = new(float32)
			a.answers[string(shared)] = answer
			if len(shared) > 0 {
				answers = append(answers, answer)
				words, names, descriptions = append(words, string(shared)), append(names, w.byName), append(descriptions,
					w.byDescribed)
			}
		}
		relevance[i] = answer
	}
	if len(answers) == 0 {
		return relevance, nil
	}
	batch := &pgx.Batch{}
	batch.Queue(readRanks, words, names, descriptions).Query(func(rows pgx.Rows) error {
		for _, into := range answers {
			if !rows.Next() {
				break
			}
			if err := rows.Scan(into); err != nil {
				return err
			}
		}
		rows.Close()
		return rows.Err()
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("rank: %w", err)
	}
	return relevance, nil
}

func (w *work) readWanted(rows pgx.Rows) error {
	for rows.Next() {
		var feed uuid.UUID
		var language string
		var name, description []string
		if err := rows.Scan(column.UUID(&feed), &language, &name, &description); err != nil {
			return err
		}
		w.wanted[feed] = newWanted(language, name, description)
	}
	return rows.Err()
}

// rankAnew ranks all items of a feed, some at a time: there may be many.
func rankAnew(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	const some = 1000
	rows, err := tx.Query(ctx, "SELECT id FROM items WHERE feed_id = $1 ORDER BY id", id)
	if err != nil {
		return err
	}
	ids, err := pgx.AppendRows(column.UUIDs(nil), rows, pgx.RowTo[uuid.UUID])
	if err != nil || len(ids) == 0 {
		return err
	}
	w := newWork()
	if err := w.load(ctx, tx, nil, nil, column.UUIDs{id}); err != nil {
		return err
	}
	for chunk := range slices.Chunk(ids, some) {
		if err := w.rankSome(ctx, tx, id, chunk); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, touchFeeds, column.UUIDs{id})
	return err
}

func (w *work) rankSome(ctx context.Context, tx pgx.Tx, id uuid.UUID, ids column.UUIDs) error {
	var r ranking
	var found column.UUIDs
	var itemID uuid.UUID
	var body []byte
	rows, err := tx.Query(ctx, "SELECT id, current FROM items WHERE id = ANY($1)", ids)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{column.UUID(&itemID), &body}, func() error {
		var d happening.Details // the current shape has its names
		if err := json.Unmarshal(append(bytes.Clone(body), '}'), &d); err != nil {
			return fmt.Errorf("item %s: %w", itemID, err)
		}
		found = append(found, itemID)
		r.add(id, textOf(&d))
		return nil
	})
	if err != nil {
		return err
	}
	relevance, err := r.rank(ctx, tx, w.wanted)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE items i SET relevance = u.relevance
		FROM unnest($1::uuid[], $2::real[]) AS u (id, relevance)
		WHERE i.id = u.id AND i.relevance IS DISTINCT FROM u.relevance`, found, relevance)
	return err
}
