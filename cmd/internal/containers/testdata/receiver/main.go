// Receiver answers webhooks over TLS and prints the webhook-id of each. GET lists all requests as "path id time", the
// time in nanoseconds since 1970.
package main

import (
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"
)

func main() {
	var (
		mu  sync.Mutex
		all strings.Builder
	)
	server := http.Server{
		Addr:              ":8443",
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if r.Method == http.MethodGet {
				_, _ = fmt.Fprint(w, all.String())
			}
			if id := r.Header.Get("webhook-id"); id != "" {
				_, _ = fmt.Fprintln(&all, r.URL.Path, id, time.Now().UnixNano())
				fmt.Println("received", id)
			}
		}),
	}
	log.Fatal(server.ListenAndServeTLS("/shared/receiver.crt", "/shared/receiver.key"))
}
