//go:build nightly

package app_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/cmd/internal/dev"
	"carillon/projections/pgtest"
)

// Sixteen listeners of one organization, as many as it may have, ask again at once whenever the server is killed. It
// comes up each time and never ends by itself, which child.run reports. CARILLON_TORTURE_KILLS=300 takes half an hour.
func TestListenersBesideRestarts(t *testing.T) {
	t.Parallel()
	const listeners = 16
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("CARILLON_TORTURE_KILLS")); err == nil {
		kills = n
	}
	dir, database := t.TempDir(), pgtest.NewServer(t)
	_, store := startNodeChild(t, dir)
	server, api, admin := startServerChild(t, filepath.Join(dir, "data"), store, database.URL())
	w := newWorkload(t, filepath.Join(dir, "data"), api, admin)
	key, err := dev.ReadKey(w.data)
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		ID string `json:"id"`
	}
	url := "https://listen.invalid/stream/" + strings.Repeat("Tok3n", 8)
	err = w.post(api+"/events/destinations", key, map[string]any{
		"name":   "listener",
		"config": map[string]any{"url": url},
	}, &made)
	if err != nil {
		t.Fatal(err)
	}
	stream := api + "/events/destinations/" + made.ID + "/listen"
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan int)
	var all sync.WaitGroup
	for n := range listeners {
		all.Go(func() {
			for ctx.Err() == nil {
				if read(ctx, stream, key, func() { opened <- n }) != nil {
					time.Sleep(50 * time.Millisecond) //nolint:gosec // a restart takes seconds
				}
			}
		})
	}
	await := func() {
		t.Helper()
		seen := map[int]bool{}
		for late := time.After(2 * time.Minute); len(seen) < listeners; {
			select {
			case n := <-opened:
				seen[n] = true
			case <-late:
				t.Fatalf("%d of %d listeners are connected", len(seen), listeners)
			}
		}
	}
	await()
	for range kills {
		server.kill()
		server.start()
		await()
	}
	cancel()
	go func() {
		for range opened { //nolint:revive // those that are about to open
		}
	}()
	all.Wait()
	close(opened)
}

// read asks for a stream, and reads it until it ends.
func read(ctx context.Context, url, key string, opened func()) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	var client http.Client
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	opened()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
