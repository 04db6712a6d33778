package analytics_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"carillon/projections/analytics"
	"carillon/projections/projecttest"
)

// question is a block of SQL in the documentation, and the answer shown below it, if any.
var question = regexp.MustCompile("(?s)```sql\n(SELECT .*?;)\n```(?:\n\n```\n(.*?)\n)?")

// Analysts can run the queries of the documentation, and the answers have the columns that it shows.
func TestQuestionsOfTheDocumentation(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, readModels()...)
	pool := log.Database
	record(log)
	log.Project()
	ensure(t, pool)
	for page, least := range map[string]int{"use/analytics.md": 6} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		for _, found := range question.FindAllStringSubmatch(string(text), -1) {
			query, header := found[1], strings.TrimSpace(found[2])
			if !strings.Contains(query, "analytics.") {
				continue
			}
			asked++
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE "+analytics.Role); err != nil {
					return err
				}
				rows, err := tx.Query(t.Context(), query)
				if err != nil {
					return err
				}
				defer rows.Close()
				var columns []string
				for _, f := range rows.FieldDescriptions() {
					columns = append(columns, f.Name)
				}
				if shown := strings.Fields(strings.ReplaceAll(header, "|", " ")); header != "" && !slices.Equal(shown, columns) {
					t.Errorf("%s shows %v, and the answer has %v:\n%s", page, shown, columns, query)
				}
				for rows.Next() { //nolint:revive // what it says is another test's matter
				}
				return rows.Err()
			})
			if err != nil {
				t.Errorf("%s: %v\n%s", page, err, query)
			}
		}
		if asked < least {
			t.Errorf("%s has %d questions, and %d were found", page, least, asked)
		}
	}
}
