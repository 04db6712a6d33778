package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

const mayNot = "42501" // insufficient_privilege

// databaseTrouble says what is wrong with CARILLON_DATABASE_URL where the first use of it failed, and how to mend it.
func databaseTrouble(err error) error {
	const setting = "CARILLON_DATABASE_URL (--database-url)"
	var answer *pgconn.PgError
	var failed *pgconn.ConnectError
	answered, connected := errors.As(err, &answer), !errors.As(err, &failed)
	switch {
	case answered && answer.Code == mayNot:
		return fmt.Errorf("%s: its user may not make schemas: \"GRANT CREATE ON DATABASE … TO …\" lets it. %w", setting, err)
	case connected:
		return fmt.Errorf("%s: %w", setting, err)
	case answered:
		return fmt.Errorf("%s: Postgres is there and refuses: %s (SQLSTATE %s). Are user, password and database right?", setting, answer.Message, answer.Code)
	}
	return fmt.Errorf("%s: Postgres can't be reached: %s. Is it running there, and are host and port right?", setting, once(failed.Unwrap()))
}

// once is an error's text without repetition: the driver tries an address with TLS and without.
func once(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(slices.Compact(lines), "; ")
}
