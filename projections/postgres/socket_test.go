//go:build unix

package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// Data directories have spaces in their names, and worse.
func TestURL_socketInAnyDirectory(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/home/ann/my data/run", "/home/ann/dätä/run", "/a+b/c%20d", "/x?host=y&z", "/a:b@c#d"} {
		cfg, err := pgx.ParseConfig(socketURL(dir, port))
		if err != nil || cfg.Host != dir || cfg.Database != database || cfg.User != role {
			t.Errorf("%s: %+v, %v", dir, cfg, err)
		}
	}
}
