package config_test

import (
	"testing"

	"carillon/cmd/internal/config"
)

func TestBaseURL_schemes(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:8080":            "http://127.0.0.1:8080",
		"localhost:8080":            "http://localhost:8080",
		":8080":                     "http://127.0.0.1:8080",
		"0.0.0.0:8080":              "http://127.0.0.1:8080",
		"http://127.0.0.1:8080/":    "http://127.0.0.1:8080",
		"carillon.example:443":      "https://carillon.example:443",
		"https://carillon.example/": "https://carillon.example",
		"http://carillon.example:8": "",
		"carillon.example":          "",
	} {
		settings := config.API{HTTPAddr: address}
		if got, err := settings.BaseURL(); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", address, got, err, want)
		}
	}
	for address, want := range map[string]bool{
		"[::1]:80":                 true,
		"https://127.0.0.1":        true,
		"https://carillon.example": false,
		"10.0.0.1:80":              false,
	} {
		settings := config.API{HTTPAddr: address}
		if got := settings.OnThisMachine(); got != want {
			t.Errorf("%q is on this machine: %t", address, got)
		}
	}
}
