package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const accountPosts = `{"data":[
	{"id":"1_1","message":"Open rehearsal on Saturday 5 December 2026 at 14:00, Havnegade 1. Free entry.",
		"created_time":"2026-11-19T08:12:01+0000","permalink_url":"https://www.facebook.com/1/posts/1",
		"from":{"id":"1","name":"Kajhallen"}},
	{"id":"1_2","message":"Applications for the residency close on 5 December at midnight.",
		"created_time":"2026-11-18T08:12:01+0000","permalink_url":"https://www.facebook.com/1/posts/2",
		"from":{"id":"1","name":"Kajhallen"}}]}`

// An account is tried as a page is: the events to collect, the words that gave them, and the posts without any.
func TestSourceTryAccount(t *testing.T) {
	t.Parallel()
	const secret = "EAAB-hunter2"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.FormValue("access_token") != secret:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"Invalid OAuth access token: `+
				r.FormValue("access_token")+`","code":190}}`)
		case r.URL.Path == "/kajhallen/posts":
			_, _ = io.WriteString(w, accountPosts)
		default:
			_, _ = io.WriteString(w, `{"data":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	try := func(args ...string) (int, string, string) {
		return runIn(t.Context(), "", append([]string{"source", "try", "@kajhallen", "--now", "2026-11-20",
			"--timezone", "Europe/Copenhagen", "--platform-url", server.URL}, args...)...)
	}
	tests := []struct {
		args      []string
		code      int
		out, errs []string
	}{
		{[]string{"--type", "facebook", "--platform-tokens", "facebook=" + secret, "--json"}, 0,
			[]string{`{"title":"Open rehearsal"`, `"startDateTime":"2026-12-05T13:00:00.000000Z"`, `"events":1`},
			nil},
		{[]string{"--type", "facebook", "--platform-tokens", "facebook=" + secret, "--explain"}, 0, []string{
			"Saturday 5 December 2026 at 14:00 (a time, a weekday, a year",
			`passed over: "5 December", it is a deadline: "applications"`, "https://www.facebook.com/1/posts/2",
		}, nil},
		{[]string{"--type", "facebook", "--platform-tokens", "facebook=EAAB-hunter2-old"}, 1, nil,
			[]string{"Facebook refuses the token in CARILLON_PLATFORM_TOKENS"}},
		{[]string{"--type", "facebook"}, 1, nil,
			[]string{"add facebook=TOKEN to CARILLON_PLATFORM_TOKENS"}},
		{[]string{"--type", "instagram"}, 1, nil,
			[]string{"add instagram:NUMBER=TOKEN"}},
		{[]string{"--type", "tiktok"}, 1, nil, []string{"tiktok:ACCOUNT=TOKEN"}},
		{[]string{"--type", "twitter"}, 1, nil, []string{"twitter=TOKEN"}},
		{nil, 1, nil, []string{"name its platform with --type"}},
	}
	for _, tt := range tests {
		code, out, errs := try(tt.args...)
		if code != tt.code {
			t.Errorf("%q: code %d, %s", tt.args, code, errs)
		}
		for _, want := range tt.out {
			if !strings.Contains(out, want) {
				t.Errorf("%q: no %q in\n%s", tt.args, want, out)
			}
		}
		for _, want := range tt.errs {
			if !strings.Contains(errs, want) {
				t.Errorf("%q: no %q in\n%s", tt.args, want, errs)
			}
		}
		if strings.Contains(out+errs, "hunter2") {
			t.Errorf("%q: the token shows:\n%s%s", tt.args, out, errs)
		}
	}
}
