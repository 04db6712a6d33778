package wire

import (
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// postgresGone reports whether an error says that Postgres can't be reached or is going away, rather than that it
// refuses a statement.
func postgresGone(err error) bool {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		for _, class := range goneClasses {
			if strings.HasPrefix(answer.Code, class) {
				return true
			}
		}
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) ||
		pgconn.SafeToRetry(err)
}

// goneClasses are beginnings of SQLSTATEs.
var goneClasses = []string{
	"08",             // connection exception
	"53",             // insufficient resources
	"57P",            // operator intervention: shutting down, starting up
	"3F000", "42P01", // no such schema or table: a read model that was never built so far
}
