package structured_test

import (
	"strings"
	"testing"
)

// An event whose address is its page's is identified by it, unless another event of the page claims it too.
func TestOwnAddress(t *testing.T) {
	t.Parallel()
	const (
		gig     = `{"@type":"Event","name":"Gig","startDate":"2026-12-05T20:00","location":"Hall"`
		matinee = `{"@type":"Event","name":"Gig","startDate":"2026-12-05T15:00","location":"Hall"`
		quiz    = `{"@type":"Event","name":"Quiz","startDate":"2026-12-06T20:00","location":"Hall"`
		own     = `,"url":"/e/1"}`
		none    = "}"
	)
	const address, weakGig, weakQuiz = "url:a.example/e/1", "page:a.example/e/1|gig|hall", "page:a.example/e/1|quiz|hall"
	for name, tt := range map[string]struct {
		head, events string
		want         []string // key, strong keys, alias
	}{
		"alone": {"<title>Welcome</title><h1>What's on</h1>", gig + own,
			[]string{address + " " + address + " ~" + weakGig}},
		"beside others": {"<title>Welcome</title>", gig + own + "," + quiz + `,"url":"/e/2"}`,
			[]string{address + " " + address + " ~" + weakGig, "url:a.example/e/2 url:a.example/e/2 ~"}},
		"beside one that has no address": {"", gig + own + "," + quiz + none, []string{address + " " + address + " ~" +
			weakGig, weakQuiz + "  ~"}},
		"shared": {"", gig + own + "," + quiz + own, []string{weakGig + "  ~", weakQuiz + "  ~"}},
		"shared, on a page about one": {"<title>Gig</title>", gig + own + "," + quiz + own,
			[]string{weakGig + "  ~", weakQuiz + "  ~"}},
		"the page is about another": {"<title>Quiz</title>", gig + own + "," + quiz + none,
			[]string{weakGig + "  ~", weakQuiz + "  ~"}},
		"matinee and evening": {"", matinee + own + "," + gig + own, []string{address + " " + address + " ~" +
			weakGig}},
		"matinee and evening, one without": {"", matinee + none + "," + gig + own, []string{address + " " + address + " ~" +
			weakGig}},
		"#event": {"<title>Welcome</title>", gig + `,"@id":"#event"}`,
			[]string{weakGig + "  ~" + address}},
		"#event on each": {"", gig + `,"@id":"#event"},` + quiz + `,"@id":"#event"}`,
			[]string{weakGig + "  ~", weakQuiz + "  ~"}},
		"#event beside one of the address": {"", gig + `,"@id":"#event"},` + quiz + own, []string{weakGig + "  ~", address +
			" " + address + " ~" + weakQuiz}},
		"#event and an address": {"", gig + `,"@id":"#event","url":"/e/1"}`, []string{address + " " + address +
			" ~" + weakGig}},
		"another one by its canonical": {`<title>Gig</title><link rel="canonical" href="/e/one">`, gig + none,
			[]string{"url:a.example/e/one url:a.example/e/one ~" + weakGig}},
		"canonical is the front page": {`<title>Gig</title><link rel="canonical" href="/">`, gig + none,
			[]string{address + " " + address + " ~" + weakGig}},
		"canonical is the section": {`<title>Gig</title><link rel="canonical" href="/e/">`, gig + none,
			[]string{address + " " + address + " ~" + weakGig}},
		"#event of the front page": {"<title>Gig</title>", gig + `,"@id":"https://a.example/#event"}`,
			[]string{address + " " + address + " ~" + weakGig}},
		"canonical is another site's": {`<title>Gig</title><link rel="canonical" href="https://b.example/e/1">`,
			gig + none, []string{address + " " + address + " ~" + weakGig}},
		"an identifier, too": {"", gig + `,"identifier":{"@type":"PropertyValue","propertyID":"eid",` +
			`"value":"7"},"url":"/e/1"}`, []string{address + " " + address + " id:a.example|eid|7 ~"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := read(t, "https://a.example/e/1", "Europe/London", tt.head+ld("["+tt.events+"]")).Observations
			got := make([]string, len(found))
			for i, o := range found {
				got[i] = o.Key + " " + strings.Join(o.Keys, " ") + " ~" + o.Alias
			}
			compare(t, strings.Join(got, "\n"), "\n"+strings.Join(tt.want, "\n"))
		})
	}
}
