package adapters

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	usePrecision  = time.Hour   // of the time when a credential was used last, and between two writes about one
	useInterval   = time.Minute // between two writes
	maxUsesAtOnce = 10_000      // in one statement

	clearInterval = 24 * time.Hour      // between two removals
	keptOfDead    = 90 * 24 * time.Hour // since the last use of a key or token that is dead or gone
)

// CredentialUses keeps when keys and tokens were used last, to the hour, for all nodes. A second use within the hour
// costs a look into a map; each credential is written once an hour by each process that sees it. A killed process loses
// its unwritten uses, a minute's worth.
type CredentialUses struct {
	Pool *pgxpool.Pool
	Log  *slog.Logger

	mu      sync.Mutex
	hour    time.Time            // of the entries in seen
	seen    map[string]struct{}  // credentials that were used in this hour
	waiting map[string]time.Time // not yet written
}

// Used notes that a valid credential was used: its prefix and public part.
func (u *CredentialUses) Used(credential string, at time.Time) {
	hour := at.UTC().Truncate(usePrecision)
	u.mu.Lock()
	defer u.mu.Unlock()
	if !hour.Equal(u.hour) || u.seen == nil {
		u.hour, u.seen = hour, map[string]struct{}{}
	}
	if _, noted := u.seen[credential]; noted {
		return
	}
	u.seen[credential] = struct{}{}
	if u.waiting == nil {
		u.waiting = map[string]time.Time{}
	}
	u.waiting[credential] = hour
}

// Keep writes what was noted until the context ends, and once more then.
func (u *CredentialUses) Keep(ctx context.Context) {
	tick := time.NewTicker(useInterval)
	defer tick.Stop()
	var cleared time.Time
	for {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), useInterval/12)
		if err := u.Flush(last); err != nil {
			u.Log.WarnContext(ctx, "when keys were used last can't be written, trying again", "error", err)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
		if time.Since(cleared) < clearInterval {
			continue
		}
		if err := u.Clear(ctx, time.Now()); err != nil {
			u.Log.WarnContext(ctx, "last use of revoked keys not cleared; trying again", "error", err)
			continue
		}
		cleared = time.Now()
	}
}

// Valid credentials stay listed, however long ago their last use was.
const clearUses = `
	DELETE FROM carillon.credential_uses u WHERE u.used_at < $1 AND NOT EXISTS (
		SELECT 1 FROM organizations.keys WHERE 'ck_' || id = u.credential AND revoked_at IS NULL AND expires_at > $2
	) AND NOT EXISTS (
		SELECT 1 FROM operators.tokens WHERE 'co_' || id = u.credential AND revoked_at IS NULL
		AND (expires_at IS NULL OR expires_at > $2)
	) AND NOT EXISTS (
		SELECT 1 FROM auditors.tokens WHERE 'ca_' || id = u.credential AND revoked_at IS NULL
		AND (expires_at IS NULL OR expires_at > $2))`

// Clear forgets when keys and tokens were used that are revoked, expired or gone with their organization, 90 days after
// their last use: until then they may be of interest.
func (u *CredentialUses) Clear(ctx context.Context, now time.Time) error {
	_, err := u.Pool.Exec(ctx, clearUses, now.Add(-keptOfDead), now)
	return wrap("clear uses of credentials", err)
}

// Of two nodes, the later use counts.
const writeUses = `
	INSERT INTO carillon.credential_uses (credential, used_at) SELECT * FROM unnest($1::text[], $2::timestamptz[])
	ON CONFLICT (credential) DO UPDATE SET used_at = excluded.used_at WHERE credential_uses.used_at < excluded.used_at`

// Flush writes the noted uses. It keeps those that it can't write for the next time.
func (u *CredentialUses) Flush(ctx context.Context) error {
	for {
		credentials, hours := u.take()
		if len(credentials) == 0 {
			return nil
		}
		if _, err := u.Pool.Exec(ctx, writeUses, credentials, hours); err != nil {
			u.giveBack(credentials, hours)
			return wrap("write uses of credentials", err)
		}
	}
}

func (u *CredentialUses) take() (credentials []string, hours []time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	// in one order on all nodes, so that none waits for another in a circle
	credentials = slices.Sorted(maps.Keys(u.waiting))
	credentials = credentials[:min(len(credentials), maxUsesAtOnce)]
	for _, credential := range credentials {
		hours = append(hours, u.waiting[credential])
		delete(u.waiting, credential)
	}
	return credentials, hours
}

func (u *CredentialUses) giveBack(credentials []string, hours []time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, credential := range credentials {
		if u.waiting[credential].Before(hours[i]) {
			u.waiting[credential] = hours[i]
		}
	}
}
