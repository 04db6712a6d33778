package analytics

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
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
		"begin with a letter, not begin with pg_ or carillon, and not be postgres, public or none")
	ErrLoginTaken = errors.New("a user or role of Postgres has this name already")
	ErrNoLogin    = errors.New("no analyst has this login")
	// ErrOwnsElsewhere means that a deletion could not drop what the login owns in another database; it names that.
	ErrOwnsElsewhere = errors.New("the login owns objects in another database: as a superuser there, run DROP OWNED BY, " +
		"and delete it again")
	ErrNotAllowed = errors.New("the server's Postgres user may not create roles: " +
		"let a superuser run ALTER ROLE … CREATEROLE for it")
)

const (
	insufficientPrivilege = "42501"
	reservedRole          = "42939"
)

// Logins are the Postgres users who may read the views and nothing else.
type Logins struct {
	Pool     *pgxpool.Pool
	Log      *slog.Logger
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
	// Defaults against mistakes, which the role may change; see bounds for what holds against intent.
	err = pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf("CREATE ROLE %[1]s LOGIN CONNECTION LIMIT %[2]d PASSWORD '%[3]s' IN ROLE %[4]s; "+
			"ALTER ROLE %[1]s SET default_transaction_read_only = on; "+
			"ALTER ROLE %[1]s SET statement_timeout = '%[5]ds'; "+
			"ALTER ROLE %[1]s SET search_path = analytics", role, maxSessions, verifier, Role, int(MaxTransaction.Seconds())))
		if err != nil {
			return err
		}
		return bound(ctx, tx, l.Log)
	})
	if err != nil {
		return "", refusal(err)
	}
	return l.connection(ctx, name, password)
}

var (
	loginName    = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
	reservedName = regexp.MustCompile(`^(?:pg_|carillon)|^(?:postgres|public|none)$`)
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

// analysts selects the members of the role $1 who log in, and logins whose deletion was begun.
var analysts = fmt.Sprintf(`
	SELECT u.rolname::text FROM pg_auth_members m
	JOIN pg_roles u ON u.oid = m.member JOIN pg_roles r ON r.oid = m.roleid
	WHERE r.rolname = $1 AND (u.rolcanlogin OR u.rolconnlimit = %d) AND NOT u.rolsuper`, maxSessions)

// Delete ends the sessions of a login and removes it, with what it owns in any database. It returns ErrNoLogin if there
// is none. If it fails midway, the login can't connect any more, is still listed, and can be deleted again.
func (l Logins) Delete(ctx context.Context, name string) error {
	var there bool
	if err := l.Pool.QueryRow(ctx, "SELECT $2 IN ("+analysts+")", Role, name).Scan(&there); err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	if !there {
		return ErrNoLogin
	}
	role := pgx.Identifier{name}.Sanitize()
	if _, err := l.Pool.Exec(ctx, "ALTER ROLE "+role+" NOLOGIN"); err != nil {
		return refusal(err)
	}
	// A session outlives its role.
	_, err := l.Pool.Exec(ctx, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = $1", name)
	if err != nil {
		return fmt.Errorf("analytics: end the sessions of the login: %w", err)
	}
	if err := l.dropElsewhere(ctx, name); err != nil {
		return err
	}
	_, err = l.Pool.Exec(ctx, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	return refusal(err)
}

// dropElsewhere drops what a role owns or was granted in other databases of the server, such as large objects.
func (l Logins) dropElsewhere(ctx context.Context, name string) error {
	rows, err := l.Pool.Query(ctx, `SELECT DISTINCT d.datname::text FROM pg_shdepend s JOIN pg_database d ON d.oid = s.dbid
		WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = (SELECT oid FROM pg_roles WHERE rolname = $1)
		AND d.datname <> current_database()`, name)
	if err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	databases, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	for _, database := range databases {
		config := l.Pool.Config().ConnConfig
		config.Database = database
		conn, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			_, err = conn.Exec(ctx, "DROP OWNED BY "+pgx.Identifier{name}.Sanitize())
			err = errors.Join(err, conn.Close(ctx))
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrOwnsElsewhere, database, err)
		}
	}
	return nil
}

// refusal returns the error that a caller can act on, if Postgres refused a statement for one of these reasons.
func refusal(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refused.Code {
		case duplicateObject, uniqueViolation:
			return ErrLoginTaken
		case insufficientPrivilege:
			return ErrNotAllowed
		case reservedRole:
			return ErrLoginName
		}
	}
	if err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	return nil
}

// connection returns the address of the database for a user, with the encryption that this process has there.
func (l Logins) connection(ctx context.Context, name, password string) (string, error) {
	config := l.Pool.Config().ConnConfig
	address := url.URL{Scheme: "postgres", User: url.UserPassword(name, password), Path: "/" + config.Database}
	port := strconv.Itoa(int(config.Port))
	query := url.Values{"sslmode": {"disable"}}
	switch {
	case l.Loopback != "":
		address.Host = l.Loopback
	case filepath.IsAbs(config.Host):
		query.Set("host", config.Host)
		query.Set("port", port)
	default:
		address.Host = net.JoinHostPort(config.Host, port)
		err := l.Pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			if _, encrypted := conn.Conn().PgConn().Conn().(*tls.Conn); encrypted {
				query.Set("sslmode", "require")
			}
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("analytics: %w", err)
		}
	}
	address.RawQuery = query.Encode()
	return address.String(), nil
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
