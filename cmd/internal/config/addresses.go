package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// encodeHint says how a password is written in an address.
const encodeHint = "percent-encode what is not a letter or a digit in its password (@ is %40, / is %2F, ? is %3F, " +
	"# is %23, % is %25)"

// errAddress refuses an address without repeating it: what is wrong may be a part of the password.
var errAddress = errors.New("must look like postgres://user:password@host:5432/carillon: " + encodeHint)

// WithPassword returns the address with the password of its user, if it names a user without one.
func (a Address) WithPassword(password Secret) Address {
	scheme, rest, _ := strings.Cut(string(a), "://")
	authority, _ := splitAuthority(rest)
	user, _, named := strings.Cut(authority, "@")
	if password == "" || !named || strings.Contains(user, ":") {
		return a
	}
	escaped := strings.ReplaceAll(url.QueryEscape(password.Reveal()), "+", "%20")
	return Address(scheme + "://" + user + ":" + escaped + rest[len(user):])
}

// password returns the password in an address.
func (a Address) password() Secret {
	_, rest, _ := strings.Cut(string(a), "://")
	authority, _ := splitAuthority(rest)
	user, _, _ := strings.Cut(authority, "@")
	_, escaped, _ := strings.Cut(user, ":")
	password, _ := url.PathUnescape(escaped) // "" if it is not escaped
	return Secret(password)
}

// CheckPostgres refuses an address that is none of Postgres, or whose password is not percent-encoded.
func (a Address) CheckPostgres() error {
	if _, err := pgconn.ParseConfig(string(a)); err != nil || !hasScheme(string(a), "postgres", "postgresql") ||
		!a.isClear() {
		return errAddress
	}
	return nil
}

// isClear reports whether the "@" of an address can only end its password.
func (a Address) isClear() bool {
	_, rest, _ := strings.Cut(string(a), "://")
	authority, rest := splitAuthority(rest)
	before, query, _ := strings.Cut(rest, "?")
	return strings.Count(authority, "@") <= 1 && !strings.Contains(before, "@") &&
		!slices.ContainsFunc(strings.Split(query, "&"), func(pair string) bool {
			name, value, _ := strings.Cut(pair, "=")
			return strings.Contains(name, "@") || strings.Contains(value, "@") && name != "password" && name != "user"
		})
}

// splitAuthority splits an address without its scheme after user, password and hosts.
func splitAuthority(rest string) (authority, other string) {
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		return rest[:end], rest[end:]
	}
	return rest, ""
}
