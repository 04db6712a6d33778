// Receiver answers webhooks over TLS and prints the webhook-id of each.
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"
)

func main() {
	server := http.Server{
		Addr:              ":8443",
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if id := r.Header.Get("webhook-id"); id != "" {
				fmt.Println("received", id)
			}
		}),
	}
	log.Fatal(server.ListenAndServeTLS("/shared/receiver.crt", "/shared/receiver.key"))
}
