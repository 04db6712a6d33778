package markup_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html"

	"carillon/command/collect/extract/markup"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestHTML(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"nothing", "  ", ""},
		{"plain text", "It's \"new\" & good", `It's "new" &amp; good`},
		{"plain text with entities", "Data &amp; Marketing &#8211; 1 &lt; 2", "Data &amp; Marketing – 1 &lt; 2"},
		{"lines", "one\ntwo\r\n\r\n three", "<p>one<br/>two</p><p>three</p>"},
		{"lines escaped twice", `one\ntwo`, "<p>one<br/>two</p>"},
		{"markup", `<p class="x">Join <b>us</b>, it's <em>free</em></p>`, "<p>Join <b>us</b>, it's <em>free</em></p>"},
		{"escaped markup", "&lt;p&gt;Join us&lt;/p&gt;", "<p>Join us</p>"},
		{"empty paragraphs", "<p>a</p><p>&nbsp;</p><p><br></p>", "<p>a</p>"},
		{"link", `<a href="https://a.example/?a=1&amp;b='" onclick="x()">a</a>`,
			`<a href="https://a.example/?a=1&amp;b=&#39;" rel="nofollow">a</a>`},
		{"script", `a<script>alert("<b>")</script>b`, "ab"},
		{"script in a link", `<a href="javascript:alert(1)">a</a>`, "a"},
		{"escaped script", "&lt;script&gt;alert(1)&lt;/script&gt;hi", "hi"},
		{"handler", `<img src=x onerror=alert(1)><img src="https://a.example/i.png" alt="I">`,
			`<img src="https://a.example/i.png" alt="I">`},
		{"style and frame", `<style>*{}</style><iframe src="https://a.example"></iframe>ok`, "ok"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := markup.HTML(tt.text)
			assert.Equal(t, got, tt.want, "got")
			assert.Equal(t, markup.HTML(got), got, "sanitised again")
		})
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                               "",
		" a\n\tb\u00a0c ":                "a b c",
		"Data &amp; Marketing":           "Data & Marketing",
		"&#039;B&#039; &#8211; it's":     "'B' – it's",
		"<b>Big</b> night<br>out":        "Big night out",
		"<p>one</p><p>two</p>":           "one two",
		"Tom <3 Jerry, 1 < 2":            "Tom <3 Jerry, 1 < 2",
		"&lt;b&gt;Big&lt;/b&gt;":         "Big",
		"&amp;lt;script&amp;gt;x":        "",
		"<style>b{}</style>text":         "text",
		"a &lt; b":                       "a < b",
		"half a tag <img src=x onerror=": "half a tag",
	}
	for text, want := range tests {
		assert.Equal(t, markup.Plain(text), want, "%q", text)
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"short", 10, "short"},
		{"exactly 10", 10, "exactly 10"},
		{"cut at a word, please", 15, "cut at a word…"},
		{"abcdefghijklmnop", 10, "abcdefghi…"},
		{"äöüäöü äöüäöü", 10, "äöüäöü…"},
	} {
		assert.Equal(t, markup.Shorten(tt.text, tt.limit), tt.want, "%q", tt.text)
	}
}

// FuzzSafety shows that browsers find no element in plain text, and no active one in HTML.
func FuzzSafety(f *testing.F) {
	f.Add("<b>a</b> &lt;script&gt;alert(1)&lt;/script&gt; <3 &amp;amp;lt;i")
	f.Add("<<a>script>alert(1)<</a>/script>")
	f.Add(`&lt;<!---->img src=x onerror=alert(1)&gt;`)
	f.Fuzz(func(t *testing.T, text string) {
		forEachElement(t, markup.Plain(text), func(n *html.Node) {
			t.Errorf("%q has element %s in plain text", text, n.Data)
		})
		forEachElement(t, markup.HTML(text), func(n *html.Node) {
			for _, a := range n.Attr {
				assert.True(t, !strings.HasPrefix(a.Key, "on") && !strings.Contains(strings.ToLower(a.Val), "javascript:"),
					"%q keeps %s=%q", text, a.Key, a.Val)
			}
			switch n.Data {
			case "script", "style", "iframe", "object", "embed", "form", "svg", "math":
				t.Errorf("%q keeps element %s", text, n.Data)
			}
		})
	})
}

func forEachElement(t *testing.T, text string, visit func(*html.Node)) {
	t.Helper()
	root := must.Get(html.Parse(strings.NewReader("<body><div>" + text + "</div>")))(t)
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data != "html" && n.Data != "head" && n.Data != "body" && (n.Data != "div" ||
			n.Parent.Data != "body") {
			visit(n)
		}
	}
}
