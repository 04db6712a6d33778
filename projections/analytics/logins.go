package analytics

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Errors of Logins.
var (
	ErrLoginName = errors.New("must be 1 to 63 lowercase letters, digits and underscores, " +
		"begin with a letter, and not begin with pg_ or carillon")
	ErrLoginTaken = errors.New("a user or role of Postgres has this name already")
	ErrNoLogin    = errors.New("no analyst has this login")
	ErrNotAllowed = errors.New("the server's Postgres user may not create roles: " +
		"let a superuser run ALTER ROLE … CREATEROLE for it")
)

const insufficientPrivilege = "42501"

// Logins are the Postgres users who may read the views and nothing else.
type Logins struct {
	Pool     *pgxpool.Pool
	Loopback string // host:port at which a private Postgres listens for analysts. Optional.
}

// Create adds a login and returns its connection string, which holds the new password. The password is not kept, and
// Postgres receives a hash of it only. It returns ErrLoginName, ErrLoginTaken or ErrNotAllowed.
func (l Logins) Create(ctx context.Context, name string) (connection string, err error) {
	if err := CheckLoginName(name); err != nil {
		return "", err
	}
	password := rand.Text()
	verifier, err := scramVerifier(password)
	if err != nil {
		return "", fmt.Errorf("analytics: %w", err)
	}
	if err := ensureRole(ctx, l.Pool); err != nil {
		return "", refusal(err)
	}
	role := pgx.Identifier{name}.Sanitize()
	// An analyst's mistakes are bounded: nothing is written, a query ends, and sessions are few.
	err = l.execute(ctx,
		"CREATE ROLE "+role+" LOGIN CONNECTION LIMIT 4 PASSWORD '"+verifier+"' IN ROLE "+Role,
		"ALTER ROLE "+role+" SET default_transaction_read_only = on",
		"ALTER ROLE "+role+" SET statement_timeout = '10min'",
		"ALTER ROLE "+role+" SET search_path = analytics")
	if err != nil {
		return "", err
	}
	return l.connection(name, password), nil
}

var (
	loginName    = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
	reservedName = regexp.MustCompile(`^(?:pg_|carillon)|^postgres$`)
)

// CheckLoginName returns ErrLoginName if no login can have the name.
func CheckLoginName(name string) error {
	if !loginName.MatchString(name) || reservedName.MatchString(name) {
		return ErrLoginName
	}
	return nil
}

// List returns the logins by name.
func (l Logins) List(ctx context.Context) ([]string, error) {
	rows, err := l.Pool.Query(ctx, analysts+" ORDER BY 1", Role)
	if err != nil {
		return nil, fmt.Errorf("analytics: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("analytics: %w", err)
	}
	return names, nil
}

// analysts selects the members of the role who log in.
const analysts = `
	SELECT u.rolname::text FROM pg_auth_members m
	JOIN pg_roles u ON u.oid = m.member JOIN pg_roles r ON r.oid = m.roleid
	WHERE r.rolname = $1 AND u.rolcanlogin AND NOT u.rolsuper`

// Delete ends the sessions of a login and removes it. It returns ErrNoLogin if there is none.
func (l Logins) Delete(ctx context.Context, name string) error {
	var there bool
	if err := l.Pool.QueryRow(ctx, "SELECT $2 IN ("+analysts+")", Role, name).Scan(&there); err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	if !there {
		return ErrNoLogin
	}
	role := pgx.Identifier{name}.Sanitize()
	if err := l.execute(ctx, "ALTER ROLE "+role+" NOLOGIN"); err != nil {
		return err
	}
	// A session outlives its role.
	_, err := l.Pool.Exec(ctx, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = $1", name)
	if err != nil {
		return fmt.Errorf("analytics: end the sessions of the login: %w", err)
	}
	return l.execute(ctx, "DROP OWNED BY "+role, "DROP ROLE "+role)
}

// execute runs statements in one transaction.
func (l Logins) execute(ctx context.Context, statements ...string) error {
	err := pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	return refusal(err)
}

// refusal returns the error that a caller can act on, if Postgres refused a statement for one of these reasons.
func refusal(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refused.Code {
		case duplicateObject, uniqueViolation:
			return ErrLoginTaken
		case insufficientPrivilege:
			return ErrNotAllowed
		}
	}
	if err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	return nil
}

// connection returns the address of the database for a user.
func (l Logins) connection(name, password string) string {
	config := l.Pool.Config().ConnConfig
	address := url.URL{Scheme: "postgres", User: url.UserPassword(name, password), Path: "/" + config.Database}
	port := strconv.Itoa(int(config.Port))
	mode := "disable"
	switch {
	case l.Loopback != "":
		address.Host = l.Loopback
	case filepath.IsAbs(config.Host):
		address.RawQuery = url.Values{"host": {config.Host}, "port": {port}}.Encode()
	default:
		address.Host = net.JoinHostPort(config.Host, port)
		if config.TLSConfig != nil {
			mode = "require"
		}
		address.RawQuery = url.Values{"sslmode": {mode}}.Encode()
	}
	return address.String()
}

// scramVerifier returns what Postgres stores of a password (RFC 5803), so that the password is in no statement and no
// log of the server.
func scramVerifier(password string) (string, error) {
	const iterations = 4096
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	sign := func(text string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored, encode := sha256.Sum256(sign("Client Key")), base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s",
		iterations, encode(salt), encode(stored[:]), encode(sign("Server Key"))), nil
}
