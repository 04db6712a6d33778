package structured

import (
	"encoding/json"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestDecodeJSON(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"proper", `{"a": [1, true, null, "x"]}`, `[{"a":[1,true,null,"x"]}]`},
		{"comments", "{ // one\n\"a\": 1, /* two */ \"b\": \"http://x/*y*/\" }", `[{"a":1,"b":"http://x/*y*/"}]`},
		{"html comment", "<!--\n{\"a\":1}\n-->", `[{"a":1}]`},
		{"cdata", "//<![CDATA[\n{\"a\":1}\n//]]>", `[{"a":1}]`},
		{"cdata in a comment", "/* <![CDATA[ */ {\"a\":1} /* ]]> */", `[{"a":1}]`},
		{"trailing commas", `{"a":[1,2,],"b":{"c":1,},}`, `[{"a":[1,2],"b":{"c":1}}]`},
		{"missing comma", "{\"a\":\"1\"\n\"b\":\"2\"}", `[{"a":"1","b":"2"}]`},
		{"missing value", `{"a":,"b":1,"c":}`, `[{"b":1}]`},
		{"line ends in a string", "{\"a\":\"one\ntwo\tthree\r\"}", `[{"a":"one\ntwo\tthree "}]`},
		{"control characters", "{\"a\":\"x\x01\x1fy\"}", `[{"a":"x  y"}]`},
		{"quotes in a string", `{"a":"the "Best" show, "ever" made","b":1}`,
			`[{"a":"the \"Best\" show, \"ever\" made","b":1}]`},
		{"single quotes", `{'a':'it\'s'}`, `[{"a":"it's"}]`},
		{"bare words", `{a: yes, b: 2.50, c: undefined}`, `[{"a":"yes","b":2.50,"c":null}]`},
		{"bad escapes", `{"a":"\x \u12 \d"}`, `[{"a":"\\x \\u12 \\d"}]`},
		{"escapes", `{"a":"\u00e9\ud83c\udfb5\n\/",}`, `[{"a":"é🎵\n/"}]`},
		{"entities for quotes", `{&quot;a&quot;:&quot;b &amp;amp; c&quot;}`, `[{"a":"b &amp; c"}]`},
		{"entities for typographic quotes", `{&#8220;a&#8221;: &#8220;b&#8221;, &#8220;c&#8221;: &#8220;20&#8243;}`,
			`[{"a":"b","c":"20"}]`},
		{"typographic quotes", `{“@type”: “Event”, „name“: “The “Foo” night, with bands”, ‘a’: ‘It’s’, «b»: «c»}`,
			`[{"@type":"Event","a":"It’s","b":"c","name":"The “Foo” night, with bands"}]`},
		{"typographic quotes in straight ones", `{"a":"the “best”, “ever”","b": 1,}`, `[{"a":"the “best”, “ever”","b":1}]`},
		{"one quote missed by the editor", `{“a”: “b", “c": [“d”, 1]}`, `[{"a":"b","c":["d",1]}]`},
		{"tags between values", "<p>{<br />\n\"a\": \"x<br />y\",<br>\n\"b\": 10<br/>\n,\"c\": [<br />1,</p><p>2]<br />}</p>",
			`[{"a":"x<br />y","b":10,"c":[1,2]}]`},
		{"tags in a string", `{"a":"the "Best"<br>show","b":1,}`, `[{"a":"the \"Best\"<br>show","b":1}]`},
		{"a bracket in the place of a key", `{"a":1,<x,"b":2}`, `[{"a":1,"b":2}]`},
		{"html comment within", "{\"a\":1,\n<!-- \"b\": 2, -->\n\"c\":3}", `[{"a":1,"c":3}]`},
		{"spaces as entities", `{&nbsp;"a":&nbsp;1,&#160;}`, `[{"a":1}]`},
		{"several values", `{"a":1}{"b":2};`, `[{"a":1},{"b":2}]`},
		{"something before", `window.x = {"a":1};`, `[{"a":1}]`},
		{"cut off", `{"a":{"b":"c`, `[{"a":{"b":"c"}}]`},
		{"cut off after a colon", `{"a":`, `[{"a":null}]`},
		{"a brace too few", `[{"a":1,{"b":2}]`, `[[{"a":1},{"b":2}]]`},
		{"a brace too many", `{"a":1}}`, `[{"a":1}]`},
		{"byte order mark", "\ufeff{\"a\":1}", `[{"a":1}]`},
		{"no structure", `false`, `null`},
		{"nothing", ``, `null`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			values, _, ok := decodeJSON(tt.text)
			if !ok {
				values = nil
			}
			var buffer strings.Builder
			encoder := json.NewEncoder(&buffer)
			encoder.SetEscapeHTML(false)
			must.OK(t, encoder.Encode(values))
			assert.Same(t, strings.TrimSpace(buffer.String()), tt.want)
		})
	}
}

func TestDecodeJSONIsBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("[", 1_000_000), strings.Repeat(`{"a":`, 300_000), strings.Repeat(`"`, 500_000),
		"{" + strings.Repeat(`"a" `, 300_000), "[" + strings.Repeat("/*", 300_000), "[" + strings.Repeat(`"x", y`, 100_000),
	} {
		values, _, _ := decodeJSON(text)
		for _, v := range values {
			if depth(v) > maxDepth {
				t.Errorf("%.10s… nests %d deep", text, depth(v))
			}
		}
	}
}

func FuzzDecodeJSON(f *testing.F) {
	f.Add("{ // one\n\"a\": 1, /* two */ 'b': \"the \"Best\" show\", }{c:[}]")
	f.Add(`{&quot;a&quot;:&quot;\ud83c\udfb5\x&quot;}`)
	f.Fuzz(func(t *testing.T, text string) {
		values, clean, ok := decodeJSON(text)
		assert.Equal(t, ok, len(values) > 0 && depth(values[0]) > 0, "ok … for %v", values)
		for _, v := range values {
			if depth(v) > maxDepth {
				t.Errorf("%.40q nests %d deep", text, depth(v))
			}
		}
		if clean && !json.Valid([]byte(text)) {
			t.Errorf("%.40q counts as valid JSON", text)
		}
	})
}

// TestDecodeJSON_ends shows that a step that consumes nothing isn't there: no few tokens in a row make it read forever.
func TestDecodeJSON_ends(t *testing.T) {
	t.Parallel()
	tokens := strings.Fields("{ } [ ] , : ; \" ' a 1 < > <!-- --> /* */ // &nbsp; &quot; \\ “ <br> ]]> -")
	for _, a := range tokens {
		for _, b := range tokens {
			for _, c := range tokens {
				decodeJSON("{" + a + b + c)
				decodeJSON(`{"a":[` + a + b + c)
			}
		}
	}
}
