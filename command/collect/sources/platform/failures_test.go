package platform_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/sources/facebook"
	"carillon/command/collect/sources/instagram"
	"carillon/command/collect/sources/platform"
	"carillon/command/collect/sources/tiktok"
	"carillon/command/collect/sources/twitter"
	"carillon/eventstore/storetest/assert"
)

func TestMissingCredentials(t *testing.T) {
	t.Parallel()
	server, o := play(t, reply{})
	tests := map[string]struct {
		collector collect.Collector
		names     string
	}{
		"facebook": {facebook.New("", window, o),
			"add facebook=TOKEN to CARILLON_PLATFORM_TOKENS, or to the file in CARILLON_PLATFORM_TOKENS_FILE"},
		"instagram":        {instagram.New("", "", window, o), "instagram:NUMBER=TOKEN with the number of your account"},
		"tiktok":           {tiktok.New(nil, window, o), "tiktok:ACCOUNT=TOKEN"},
		"tiktok's account": {tiktok.New(map[string]string{"other": secret}, window, o), "tiktok:kajhallen=TOKEN"},
		"twitter":          {twitter.New("", window, o), "twitter=TOKEN"},
	}
	for name, tt := range tests {
		got := walk(t, tt.collector, account(strings.Fields(strings.ReplaceAll(name, "'", " "))[0]), nil)
		assert.True(t, errors.Is(got.err, collect.ErrNeedsCredentials) && strings.Contains(got.err.Error(), tt.names),
			"%s: %v, want it to name %s", name, got.err, tt.names)
	}
	asked := server.requests()
	assert.True(t, len(asked) == 0, "the network was asked: %+v", asked)
}

func graphError(code, subcode int, message string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":"OAuthException","code":%d,"error_subcode":%d,"fbtrace_id":"x"}}`,
		message, code, subcode)
}

// Each failure is one of a few states, in a sentence that says what to do.
func TestFailures(t *testing.T) {
	t.Parallel()
	user := reply{match: "/by/username/", body: sample(t, "x_user_lookup.json")}
	tests := []struct {
		name, platform string
		replies        []reply
		want           error
		says           string
	}{
		{"token changed", "facebook", []reply{{status: 400, body: sample(t, "fb_error.json")}}, collect.ErrNeedsCredentials,
			"Facebook refuses the token in CARILLON_PLATFORM_TOKENS (“Error validating access token”)"},
		{"token expired", "facebook", []reply{{status: 400, body: graphError(190, 463, "Session has expired")}},
			collect.ErrNeedsCredentials, "it has expired"},
		{"token repeated", "facebook", []reply{{status: 400, body: graphError(190, 0, "Malformed access token "+secret)}},
			collect.ErrNeedsCredentials, "refuses the token in CARILLON_PLATFORM_TOKENS: make"},
		{"no permission", "facebook",
			[]reply{{status: 403, body: graphError(10, 0,
				"(#10) This endpoint requires the 'pages_read_engagement' permission")}}, collect.ErrNeedsCredentials,
			"it needs the permission pages_read_engagement"},
		{"no permission 200", "facebook", []reply{{status: 403, body: graphError(200, 0, "x")}}, collect.ErrNeedsCredentials,
			`read the posts of "kajhallen"`},
		{"unknown page", "facebook",
			[]reply{{status: 400, body: graphError(100, 33,
				"Unsupported get request. Object with ID 'kajhallen' does not exist")}}, collect.ErrUnknownAccount,
			`Facebook knows no account "kajhallen"`},
		{"alias", "facebook", []reply{{status: 404, body: graphError(803, 0,
			"Some of the aliases you requested do not exist: kajhallen")}}, collect.ErrUnknownAccount, "knows no account"},
		{"limit", "facebook", []reply{{status: 403, body: graphError(4, 0, "Application request limit reached")}},
			collect.ErrResting, "collecting goes on in 1h0m0s"},
		{"page limit", "facebook",
			[]reply{{status: 400, body: graphError(80001, 0, "x"),
				header: map[string]string{"X-Business-Use-Case-Usage": `{"4":[{"type":"pages","call_count":100,` +
					`"estimated_time_to_regain_access":17}]}`}}}, collect.ErrResting, "goes on in 17m0s"},
		{"trouble", "facebook", []reply{{status: 500, body: graphError(2, 0, "Service temporarily unavailable")}},
			collect.ErrHTTPStatus, "status 500 and code 2 (“Service temporarily unavailable”)"},
		{"trouble without words", "facebook", []reply{{status: 502, body: "<html>Bad gateway</html>"}}, collect.ErrHTTPStatus,
			"status 502"},
		{"error with 200", "facebook", []reply{{body: graphError(1, 0, "An unknown error occurred")}}, collect.ErrHTTPStatus,
			"status 502 and code 1"},
		{"cut short", "facebook", []reply{{body: `{"data":[{"id":"1","na`, cut: true}}, collect.ErrBadAnswer, "cut short"},
		{"half of JSON", "facebook", []reply{{body: `{"data":[{"id":"1","na`}}, collect.ErrBadAnswer,
			"cut short or is no JSON"},
		{"other JSON", "facebook", []reply{{body: `{"data":{"id":7}}`}}, collect.ErrBadAnswer, "cut short or is no JSON"},
		{"a page of words with 200", "facebook",
			[]reply{{body: "<!doctype html><title>Log in</title>", header: map[string]string{"Content-Type": "text/html"}}},
			collect.ErrBadAnswer, "is no JSON; the next visit asks again"},
		{"no list", "facebook", []reply{{body: `{}`}}, collect.ErrBadAnswer, "neither events nor an error"},
		{"null", "facebook", []reply{{body: `null`}}, collect.ErrBadAnswer, "neither events nor an error"},
		{"error that is none", "facebook", []reply{{body: `{"error":null}`}}, collect.ErrBadAnswer,
			"neither events nor an error"},
		{"limit until a time", "facebook",
			[]reply{{status: 429, body: "<html>", header: map[string]string{"Retry-After": now.Add(42 * time.Minute).
				Format(http.TimeFormat)}}}, collect.ErrResting, "goes on in 42m0s"},
		{"address of nothing", "facebook", []reply{{status: 404, body: "not here"}}, collect.ErrHTTPStatus,
			"status 404; a newer version of Carillon may know"},
		{"redirect", "facebook", []reply{{status: 302, header: map[string]string{"Location": "http://127.0.0.1:1/"}}},
			collect.ErrHTTPStatus, "status 502"},

		{"token", "instagram", []reply{{status: 400, body: graphError(190, 460, "Session changed")}},
			collect.ErrNeedsCredentials, "CARILLON_PLATFORM_TOKENS"},
		{"unknown or private", "instagram", []reply{{status: 400, body: graphError(110, 2207013, "Invalid user id")}},
			collect.ErrUnknownAccount, "or it is private or no business or creator account"},
		{"permission", "instagram", []reply{{status: 400, body: graphError(10, 0, "x")}}, collect.ErrNeedsCredentials,
			"instagram_basic"},
		{"cut short", "instagram", []reply{{body: sample(t, "ig_business_discovery.json")[:300]}}, collect.ErrBadAnswer,
			"cut short"},

		{"a page of words with 200", "instagram", []reply{{body: "<html>"}}, collect.ErrBadAnswer, "is no JSON"},
		{"no account", "instagram", []reply{{body: `{"id":"17841405309211844"}`}}, collect.ErrBadAnswer,
			"neither an account nor an error"},

		{"token", "tiktok", []reply{{status: 401, body: `{"data":{},"error":{"code":"access_token_invalid","message":"x",` +
			`"log_id":"1"}}`}}, collect.ErrNeedsCredentials, "invalid or has expired"},
		{"scope", "tiktok", []reply{{status: 401, body: `{"error":{"code":"scope_not_authorized","message":"x"}}`}},
			collect.ErrNeedsCredentials, "the scope video.list"},
		{"limit", "tiktok", []reply{{status: 429, body: sample(t, "tiktok_error.json")}}, collect.ErrResting,
			"goes on in 1m0s"},
		{"code other than ok with 200", "tiktok",
			[]reply{{body: `{"data":{"videos":[]},"error":{"code":"internal_error","message":"try later"}}`}},
			collect.ErrHTTPStatus, `code "internal_error" (“try later”)`},
		{"nothing", "tiktok", []reply{{body: `{}`}}, collect.ErrBadAnswer, "neither videos nor an error"},
		{"cut short", "tiktok", []reply{{body: sample(t, "tiktok_video_list.json")[:200]}}, collect.ErrBadAnswer,
			"cut short"},
		{"a page of words with 200", "tiktok", []reply{{body: "<html>"}}, collect.ErrBadAnswer, "is no JSON"},
		{"ok and nothing", "tiktok", []reply{{body: `{"error":{"code":"ok"}}`}}, collect.ErrBadAnswer,
			"neither videos nor an error"},
		{"token of another", "tiktok", []reply{{body: strings.ReplaceAll(sample(t, "tiktok_video_list.json"), "@kajhallen",
			"@someone")}}, collect.ErrNeedsCredentials, `is of the account "someone"`},

		{"token", "twitter", []reply{{status: 401, body: `{"title":"Unauthorized","type":"about:blank","status":401,` +
			`"detail":"Unauthorized"}`}}, collect.ErrNeedsCredentials,
			"X refuses the token in CARILLON_PLATFORM_TOKENS (“Unauthorized”)"},
		{"access level", "twitter",
			[]reply{{status: 403, body: `{"title":"Client Forbidden","reason":"client-not-enrolled",` +
				`"type":"https://api.twitter.com/2/problems/client-forbidden"}`}}, collect.ErrNeedsCredentials, "Client Forbidden"},
		{"credits", "twitter", []reply{{status: 402, body: `{"title":"CreditsDepleted"}`}}, collect.ErrNeedsCredentials,
			"credits"},
		{"unknown", "twitter", []reply{{body: sample(t, "x_partial_error.json")}}, collect.ErrUnknownAccount,
			`X knows no account "kajhallen"`},
		{"private", "twitter", []reply{{body: strings.Replace(sample(t, "x_user_lookup.json"), `"id"`,
			`"protected":true,"id"`, 1)}}, collect.ErrPrivateAccount, "is private on X"},
		{"private posts", "twitter", []reply{user, {body: `{"errors":[{"resource_type":"user","title":"Authorization ` +
			`Error","detail":"Sorry, you are not authorized to see the user",` +
			`"type":"https://api.x.com/2/problems/not-authorized-for-resource"}]}`}}, collect.ErrPrivateAccount,
			"is private on X"},
		{"suspended", "twitter", []reply{{body: `{"errors":[{"title":"Forbidden","detail":"User has been suspended: ` +
			`[kajhallen].","type":"https://api.x.com/2/problems/resource-unavailable"}]}`}}, collect.ErrUnknownAccount,
			"it is suspended"},
		{"limit", "twitter", []reply{user, {status: 429, body: sample(t, "x_error_429.json"),
			header: map[string]string{"x-rate-limit-limit": "900", "x-rate-limit-remaining": "0",
				"x-rate-limit-reset": fmt.Sprint(now.Add(7 * time.Minute).Unix())}}}, collect.ErrResting, "goes on in 7m0s"},
		{"private posts beside a count", "twitter",
			[]reply{user, {body: `{"errors":[{"title":"Authorization Error",` +
				`"type":"https://api.x.com/2/problems/not-authorized-for-resource"}],"meta":{"result_count":0}}`}},
			collect.ErrPrivateAccount, "is private on X"},
		{"limit, our clock is an hour slow", "twitter",
			[]reply{user, {status: 429, header: map[string]string{"Date": now.Add(time.Hour).Format(http.TimeFormat),
				"x-rate-limit-reset": fmt.Sprint(now.Add(67 * time.Minute).Unix())}}}, collect.ErrResting, "goes on in 7m0s"},
		{"limit, our clock is an hour fast", "twitter",
			[]reply{user, {status: 429, header: map[string]string{"Date": now.Add(-time.Hour).Format(http.TimeFormat),
				"x-rate-limit-reset": fmt.Sprint(now.Add(-53 * time.Minute).Unix())}}}, collect.ErrResting, "goes on in 7m0s"},
		{"limit whose reset has passed", "twitter",
			[]reply{user, {status: 429, header: map[string]string{"x-rate-limit-reset": fmt.Sprint(now.Add(-time.Minute).
				Unix())}}}, collect.ErrResting, "goes on in 1m0s"},
		{"limit of a day", "twitter",
			[]reply{user, {status: 429, header: map[string]string{"x-rate-limit-limit": "900", "x-rate-limit-remaining": "800",
				"x-rate-limit-reset": fmt.Sprint(now.Add(7 * time.Minute).Unix()), "x-app-limit-24hour-limit": "1000",
				"x-app-limit-24hour-remaining": "0", "x-app-limit-24hour-reset": fmt.Sprint(now.Add(5 * time.Hour).Unix())}}},
			collect.ErrResting, "goes on in 5h0m0s"},
		{"limit until never", "twitter",
			[]reply{user, {status: 429, header: map[string]string{"x-rate-limit-reset": "99999999999999"}}}, collect.ErrResting,
			"goes on in 24h0m0s"},
		{"a page of words with 200", "twitter", []reply{{body: "<html>"}}, collect.ErrBadAnswer, "is no JSON"},
		{"cut short", "twitter", []reply{user, {body: sample(t, "x_user_tweets.json")[:500], cut: true}},
			collect.ErrBadAnswer, "cut short"},
		{"nothing", "twitter", []reply{{body: `{}`}}, collect.ErrBadAnswer, "neither data nor an error"},
	}
	for _, tt := range tests {
		t.Run(tt.platform+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			_, o := play(t, tt.replies...)
			got := walk(t, collectors(o)[tt.platform], account(tt.platform), nil)
			assert.True(t, errors.Is(got.err, tt.want) && strings.Contains(got.err.Error(), tt.says),
				"%v\nwant %q (%v)", got.err, tt.says, tt.want)
			assert.True(t, !collect.Gone(got.err), "the account counts as gone, and all that it showed")
			assert.True(t, len(got.observations) == 0, "observations: %+v", got.observations)
		})
	}
}

// Without permission to read a page's events its posts are read, and a note names the permission.
func TestFacebookWithoutEvents(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{graphError(10, 0, "x"),
		graphError(100, 0, "(#100) Tried accessing nonexisting field (events) on node type (Page)")} {
		replies := documented(t, "facebook")
		replies[0] = reply{match: "/events?", status: 403, body: refusal}
		_, o := play(t, replies...)
		got := walk(t, collectors(o)["facebook"], account("facebook"), nil)
		assert.True(t, got.err == nil && len(got.observations) == 1 && len(got.notes) == 1 &&
			strings.Contains(got.notes[0].Text, "pages_read_engagement") && got.partial,
			"%v, %d observations, notes %+v, partial %v", got.err, len(got.observations), got.notes, got.partial)
	}
}

// X sends data with errors beside it.
func TestPartialErrors(t *testing.T) {
	t.Parallel()
	replies := documented(t, "twitter")
	replies[2].body = strings.Replace(replies[2].body, `"meta":`, `"errors":[{"resource_type":"tweet","title":"Not `+
		`Found Error","type":"https://api.x.com/2/problems/resource-not-found"}],"meta":`, 1)
	_, o := play(t, replies...)
	got := walk(t, collectors(o)["twitter"], account("twitter"), nil)
	assert.True(t, got.err == nil && len(got.observations) == 1 && len(got.notes) == 1 &&
		got.notes[0].Code == collect.NoteSkippedEvent,
		"%v, %d observations, notes %+v", got.err, len(got.observations), got.notes)
}

// Pages are read by cursor. The address of the next page, which contains the token, is never requested.
func TestPagesByCursor(t *testing.T) {
	t.Parallel()
	tests := map[string][]reply{
		"facebook": {
			{match: "events?after=QVFIUb", body: `{"data":[],"paging":{"cursors":{"after":"QVFIUc"}}}`},
			{match: "events?", body: sample(t, "fb_page_events.json")},
			{match: "posts?after=b", body: `{"data":[]}`},
			{match: "posts?", body: sample(t, "fb_page_posts.json")},
		},
		"instagram": documented(t, "instagram"), "tiktok": documented(t, "tiktok"), "twitter": documented(t, "twitter"),
	}
	want := map[string][]string{
		"facebook": {"facebook:kajhallen/events", "facebook:kajhallen/posts", "facebook:kajhallen/events?cursor=QVFIUb",
			"facebook:kajhallen/posts?cursor=b"},
		"instagram": {"instagram:kajhallen", "instagram:kajhallen?cursor=QVFIUc"},
		"tiktok":    {"tiktok:kajhallen", "tiktok:kajhallen?cursor=1795082400000"},
		"twitter": {"twitter:kajhallen",
			"twitter:kajhallen/2244994945?cursor=7140dibdnow9c7btw421dyz6jism75z99gyxd8egarsc4"},
	}
	for name, replies := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, o := play(t, replies...)
			got := walk(t, collectors(o)[name], account(name), nil)
			if !slices.Equal(got.addresses, want[name]) || got.err != nil || len(got.pageErrs) > 0 {
				t.Errorf("pages %q, %v %v\nwant  %q", got.addresses, got.err, got.pageErrs, want[name])
			}
			for _, r := range server.requests() {
				if name != "facebook" && name != "instagram" && (strings.Contains(r.query, "s3cret") ||
					r.authorization != "Bearer "+secret) {
					t.Errorf("the token is in the wrong place: %+v", r)
				}
			}
		})
	}
}

// A repeated cursor ends the walk with a note.
func TestRepeatedCursor(t *testing.T) {
	t.Parallel()
	ig := sample(t, "ig_business_discovery.json")
	tests := map[string][]reply{
		"facebook": {{match: "/events?", body: sample(t, "fb_page_events.json")},
			{match: "/posts?", body: sample(t, "fb_page_posts.json")}},
		"instagram": {{body: ig}},
		"tiktok":    {{body: sample(t, "tiktok_video_list.json")}},
		"twitter": {{match: "/by/username/", body: sample(t, "x_user_lookup.json")},
			{match: "/tweets", body: sample(t, "x_user_tweets.json")}},
	}
	for name, replies := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, o := play(t, replies...)
			got := walk(t, collectors(o)[name], account(name), nil)
			again := slices.ContainsFunc(got.notes, func(n collect.Note) bool {
				return n.Code == collect.NoteTruncated && strings.Contains(n.Text, "again")
			})
			assert.True(t, got.err == nil && again && got.partial && len(got.addresses) <= 4,
				"%v, notes %+v, pages %q", got.err, got.notes, got.addresses)
		})
	}
}

// Requests with a token stop before its limit is exceeded, for all sources that use it.
func TestLimits(t *testing.T) {
	t.Parallel()
	tests := map[string]map[string]string{
		"facebook": {"X-Business-Use-Case-Usage": `{"400000001":[{"type":"pages","call_count":95,"total_cputime":20,` +
			`"total_time":20,"estimated_time_to_regain_access":0}]}`},
		"instagram": {"X-App-Usage": `{"call_count":28,"total_time":91,"total_cputime":25}`},
		"twitter": {"x-rate-limit-limit": "900", "x-rate-limit-remaining": "89",
			"x-rate-limit-reset": fmt.Sprint(now.Add(10 * time.Minute).Unix())},
	}
	for name, header := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replies := documented(t, name)
			for i := range replies {
				replies[i].header = header
			}
			server, o := play(t, replies...)
			c := collectors(o)[name]
			walk(t, c, account(name), nil)
			asked := len(server.requests())
			other := account(name)
			other.Handle = "another"
			var rest *collect.RestError
			if got := walk(t, c, other, nil); !errors.As(got.err, &rest) || rest.For < 9*time.Minute ||
				rest.For > 10*time.Minute {
				t.Errorf("the other source: %v", got.err)
			}
			if more := len(server.requests()); more != asked {
				t.Errorf("%d more requests were made", more-asked)
			}
			// Another token has separate limits.
			free := map[string]collect.Collector{"facebook": facebook.New("other", window, o),
				"instagram": instagram.New("other", "1", window, o), "twitter": twitter.New("other", window, o)}
			if got := walk(t, free[name], other, nil); len(server.requests()) == asked {
				t.Errorf("another token was not used: %v", got.err)
			}
		})
	}
}

// Facebook and Instagram may share a token and its limits: if one of them has used a limit up, the other makes no
// requests either.
func TestSharedTokenSharesLimits(t *testing.T) {
	t.Parallel()
	replies := documented(t, "facebook")
	for i := range replies {
		replies[i].header = map[string]string{"X-App-Usage": `{"call_count":91,"total_time":25,"total_cputime":25}`}
	}
	server, o := play(t, replies...)
	all := collectors(o)
	walk(t, all["facebook"], account("facebook"), nil)
	asked := len(server.requests())
	var rest *collect.RestError
	if got := walk(t, all["instagram"], account("instagram"), nil); !errors.As(got.err, &rest) ||
		len(server.requests()) != asked {
		t.Errorf("%v after %d more requests", got.err, len(server.requests())-asked)
	}
}

// An unavailable platform gets no request before the time that it names.
func TestUnavailablePlatform(t *testing.T) {
	t.Parallel()
	for name := range collectors(platform.Options{}) {
		server, o := play(t, reply{status: 503, body: "<html>Back soon</html>",
			header: map[string]string{"Retry-After": "1200"}})
		c := collectors(o)[name]
		assert.Is(t, walk(t, c, account(name), nil).err, collect.ErrHTTPStatus, "%s", name)
		asked := len(server.requests())
		if got := walk(t, c, account(name), nil); !errors.Is(got.err, collect.ErrResting) || len(server.requests()) != asked {
			t.Errorf("%s: then %v after %d more requests", name, got.err, len(server.requests())-asked)
		}
	}
}

// Little use causes no pause.
func TestLittleUse(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]map[string]string{
		"facebook": {"X-App-Usage": `{"call_count":28,"total_time":25,"total_cputime":25}`,
			"X-Business-Use-Case-Usage": `broken`},
		"twitter": {"x-rate-limit-limit": "900", "x-rate-limit-remaining": "899",
			"x-rate-limit-reset": fmt.Sprint(now.Add(10 * time.Minute).Unix())},
	} {
		replies := documented(t, name)
		for i := range replies {
			replies[i].header = header
		}
		_, o := play(t, replies...)
		if got := walk(t, collectors(o)[name], account(name), nil); got.err != nil {
			t.Errorf("%s: %v", name, got.err)
		}
	}
}

// A platform that does not answer is an error that does not contain the address.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice the end of the connection
		<-r.Context().Done()
	}))
	t.Cleanup(hang.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	for base, test := range map[string]struct {
		timeout time.Duration
		want    error
	}{
		hang.URL:             {50 * time.Millisecond, collect.ErrTimeout},
		"http://127.0.0.1:1": {time.Minute, collect.ErrConnection},
	} {
		o := platform.Options{
			Base:      base,
			Transport: transport,
			Timeout:   test.timeout,
			Now:       func() time.Time { return now },
		}
		for name, c := range collectors(o) {
			assert.Is(t, walk(t, c, account(name), nil).err, test.want, "%s", name)
		}
	}
}

// Posts that are too old to announce anything end the walk.
func TestOldPosts(t *testing.T) {
	t.Parallel()
	old := strings.NewReplacer("2026-11-19", "2026-03-19", "2026-11-16", "2026-03-16", "2026-11-17", "2026-03-17",
		"1795082400", "1773900000")
	for _, name := range []string{"facebook", "instagram", "tiktok"} {
		replies := documented(t, name)
		for i := range replies {
			replies[i].body = old.Replace(replies[i].body)
		}
		_, o := play(t, replies...)
		got := walk(t, collectors(o)[name], account(name), nil)
		if got.err != nil || !got.partial || slices.ContainsFunc(got.addresses, func(a string) bool {
			return strings.Contains(a, "cursor")
		}) {
			t.Errorf("%s: %v, partial %v, pages %q", name, got.err, got.partial, got.addresses)
		}
	}
}
