package demo

import (
	"context"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"time"
)

// pageEvents is how many events the page shows.
const pageEvents = 3

// page is a small venue's site, as real ones are: one JSON-LD block with dates ahead of today.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>The Belfry – concerts</title>
<script type="application/ld+json">
{"@context": "https://schema.org", "@graph": [
{{- range $i, $e := .}}{{if $i}},{{end}}
  {"@type": "MusicEvent", "@id": {{$e.URL}}, "url": {{$e.URL}}, "name": {{$e.Name}},
   "description": {{$e.Text}}, "startDate": {{$e.Start}}, "endDate": {{$e.End}},
   "eventStatus": "https://schema.org/EventScheduled",
   "location": {"@type": "Place", "name": "The Belfry", "address": {"@type": "PostalAddress",
     "streetAddress": "1 Tower Lane", "addressLocality": "Bristol", "addressCountry": "GB"}},
   "organizer": {"@type": "Organization", "name": "Belfry Music"}}
{{- end}}
]}
</script>
</head>
<body><h1>Concerts at The Belfry</h1></body>
</html>
`))

const readHeaderTimeout = 5 * time.Second

type concert struct{ URL, Name, Text, Start, End string }

// servePage serves the page on loopback until closed.
func servePage(ctx context.Context) (url string, closePage func(), err error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("page: %w", err)
	}
	base := "http://" + listener.Addr().String()
	server := &http.Server{
		ReadHeaderTimeout: readHeaderTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/concerts" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = page.Execute(w, concerts(base, time.Now())) // a reader that went away
		}),
	}
	go func() { _ = server.Serve(listener) }() // until closed
	return base + "/concerts", func() { _ = server.Close() }, nil
}

func concerts(base string, now time.Time) []concert {
	names := [pageEvents][2]string{
		{"Change Ringing for Beginners", "An evening with eight bells and strong arms."},
		{"Carillon at Dusk", "Bach, Satie and a new piece by the city carillonneur."},
		{"Tubular & Handbells", "The youth ensemble plays film music."},
	}
	list := make([]concert, 0, pageEvents)
	for i, name := range names {
		start := time.Date(now.Year(), now.Month(), now.Day()+2+5*i, 19, 30, 0, 0, time.UTC)
		list = append(list, concert{
			URL:   fmt.Sprintf("%s/concerts/%d", base, i+1),
			Name:  name[0],
			Text:  name[1],
			Start: start.Format(time.RFC3339),
			End:   start.Add(2 * time.Hour).Format(time.RFC3339),
		})
	}
	return list
}
