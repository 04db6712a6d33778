package app_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// profilesDir is where benchmarks keep what processor time goes into; "" for nowhere.
func profilesDir() string { return os.Getenv("PROFILES") }

// statementSettings has a Postgres count what its statements take, where that is kept.
func statementSettings() map[string]string {
	if profilesDir() == "" {
		return nil
	}
	return map[string]string{"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on"}
}

// profile begins to profile the server, for 15 s of it, and its Postgres.
func (w *watching) profile() (keep func()) {
	w.Helper()
	dir := profilesDir()
	if dir == "" {
		return func() {}
	}
	name := filepath.Join(dir, strings.NewReplacer("/", "_", "=", "").Replace(w.bench.Name()))
	write := func(suffix string, content []byte, err error) {
		if err == nil {
			err = os.WriteFile(name+suffix, content, 0o600)
		}
		if err != nil {
			w.Error(err)
		}
	}
	for _, statement := range []string{"CREATE EXTENSION IF NOT EXISTS pg_stat_statements", "SELECT pg_stat_statements_reset()"} {
		if _, err := w.pool.Exec(w.bench.Context(), statement); err != nil {
			w.Fatal(err)
		}
	}
	get := func(path string) ([]byte, error) {
		request, err := http.NewRequestWithContext(w.bench.Context(), http.MethodGet, "http://"+w.admin+"/debug/pprof/"+path, http.NoBody)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+w.admins)
		response, err := (&http.Client{Timeout: time.Minute}).Do(request)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		return io.ReadAll(response.Body)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		content, err := get("profile?seconds=15")
		write(".pprof", content, err)
	}()
	return func() {
		content, err := get("heap")
		write(".heap", content, err)
		<-done
		const times = `SELECT format('%10s ms %10s ms planning %8s calls %9s rows  %s', round(total_exec_time::numeric, 1), round(total_plan_time::numeric, 1), calls, rows,
			left(regexp_replace(query, '\s+', ' ', 'g'), 160)) FROM pg_stat_statements ORDER BY total_exec_time + total_plan_time DESC LIMIT 60`
		rows, err := w.pool.Query(w.bench.Context(), times)
		if err != nil {
			w.Fatal(err)
		}
		defer rows.Close()
		var text strings.Builder
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				w.Fatal(err)
			}
			fmt.Fprintln(&text, line)
		}
		write(".statements", []byte(text.String()), rows.Err())
	}
}
