package console_test

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/suite"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// The tests of pages in a real browser: one Chromium for the package, one tab a test. They are skipped without one;
// make test reports that, and make chromium installs it.

// chromium is the browser that all tests share. The first test that needs it starts it.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{os.Getenv("CARILLON_TEST_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, nil //nolint:nilnil // not installed
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path),
		chromedp.WSURLReadTimeout(apitest.Patience), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("renderer-process-limit", "2"), chromedp.Flag("js-flags", "--max-old-space-size=128"),
		chromedp.Flag("mute-audio", true))
	if os.Geteuid() == 0 { // root has no sandbox
		options = append(options, chromedp.NoSandbox)
	}
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	browser, closeBrowser := chromedp.NewContext(allocated)
	endBrowser = func() {
		closeBrowser()
		stop()
	}
	return browser, chromedp.Do(browser)
})

var endBrowser = func() {}

func TestMain(m *testing.M) {
	code := suite.Main(m)
	endBrowser()
	os.Exit(code)
}

// tab is a page in a browser.
type tab struct {
	context.Context

	base string // address of the server

	mu       sync.Mutex
	consoled []string // errors and warnings on the console, including content security policy reports
	asked    []string // requested addresses
}

// serve serves the world's pages to a browser.
func (w *world) serve(t *testing.T) string {
	t.Helper()
	return serveAt(t, w.handler)
}

func serveAt(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// needsBrowser skips a test without Chromium. It is called first, before any set-up.
func needsBrowser(t *testing.T) context.Context {
	t.Helper()
	browser, err := chromium()
	switch {
	case err != nil:
		t.Fatalf("Chromium is here and does not start: %v", err)
	case browser == nil:
		t.Skip("SKIPPED: no Chromium on this machine, so that no page was tried in a browser. make chromium installs it.")
	}
	return browser
}

// newTab opens a tab with a session, or without one ("").
func newTab(t *testing.T, base, cookie string) *tab {
	t.Helper()
	browser := needsBrowser(t)
	own, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	bounded, cancel := context.WithTimeout(own, 2*apitest.Patience)
	t.Cleanup(cancel)
	b := &tab{Context: bounded, base: base}
	must.OK(t, chromedp.Listen(b, b.hear))
	call(t, b, network.Enable, network.EnableParams{})
	call(t, b, log.Enable, cdp.Empty{})
	call(t, b, runtime.Enable, cdp.Empty{})
	call(t, b, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: reportViolations})
	b.signedIn(t, cookie)
	return b
}

// signedIn sets the session cookie of the tab, or removes it ("").
func (b *tab) signedIn(t *testing.T, cookie string) {
	t.Helper()
	call(t, b, network.ClearBrowserCookies, cdp.Empty{})
	if cookie != "" {
		for _, name := range []string{"carillon_console", "carillon_operators"} { // only one of them is set
			call(t, b, network.SetCookie, network.SetCookieParams{
				Name:     name,
				Value:    cookie,
				URL:      b.base + "/console",
				Path:     "/console",
				HTTPOnly: new(true),
				SameSite: network.CookieSameSiteStrict,
			})
		}
	}
}

const reportViolations = `document.addEventListener("securitypolicyviolation", (e) =>
	console.error("policy: " + e.violatedDirective + " " + e.blockedURI))`

// hear records the errors and requests of a page.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.consoled = append(b.consoled, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		b.consoled = append(b.consoled, fmt.Sprintf("%+v", e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		for _, argument := range e.Args {
			b.consoled = append(b.consoled, argument.Value.String())
		}
	}
}

// quiet checks what was recorded since the last call.
func (b *tab) quiet(t *testing.T, what string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.consoled {
		t.Errorf("%s: the console says %s", what, text)
	}
	for _, address := range b.asked {
		// Resources of the browser itself; the policy refuses a page's.
		if !strings.HasPrefix(address, b.base+"/") && !strings.HasPrefix(address, "data:") {
			t.Errorf("%s: the page asks %s", what, address)
		}
	}
	b.consoled, b.asked = nil, nil
}

// forget drops the records so far.
func (b *tab) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.consoled, b.asked = nil, nil
}

// call runs browser actions.
func call[P, R any](t *testing.T, b *tab, command cdp.Command[P, R], params P) R {
	t.Helper()
	result, err := chromedp.Call(b, command, params)
	must.True(t, err == nil, "%s: %v", command.Method, err)
	return result
}

// open goes to a page and waits until it is loaded.
func (b *tab) open(t *testing.T, path string) {
	t.Helper()
	if err := chromedp.Do(b, chromedp.Navigate(b.base+path)); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// ask returns the value of an expression on the page.
func ask[T any](t *testing.T, b *tab, expression string) T {
	t.Helper()
	value, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	must.True(t, err == nil, "%.200s: %v", expression, err)
	return value
}

// until waits for an expression to hold on a complete page: a page that is still loading shows its first lines
// already, and a page that is being left has none.
func (b *tab) until(t *testing.T, what, expression string) {
	t.Helper()
	must.Eventually(t, what, func() bool {
		holds, err := chromedp.Run(b, chromedp.Evaluate[bool](`document.readyState === "complete" && (`+expression+`)`))
		return err == nil && holds
	})
}

// text returns the visible text of a page.
func (b *tab) text(t *testing.T) string {
	t.Helper()
	return ask[string](t, b, "document.body.innerText")
}

// shows expects texts, in any case, since the style sheet may change it.
func (b *tab) shows(t *testing.T, what string, texts ...string) {
	t.Helper()
	shown := strings.ToLower(b.text(t))
	for _, text := range texts {
		assert.True(t, strings.Contains(shown, strings.ToLower(text)),
			"%s: the page does not show %q:\n%s", what, text, shown)
	}
}

//go:embed testdata/accessibility.js
var accessibility string

// accessible checks the page for screen readers and keyboards.
func (b *tab) accessible(t *testing.T, what string) {
	t.Helper()
	b.until(t, what+": its style sheet is there", "true")
	for _, finding := range ask[[]string](t, b, accessibility) {
		t.Errorf("%s: %s", what, finding)
	}
}

// sized sets the width of the window in pixels.
func (b *tab) sized(t *testing.T, width int64) {
	t.Helper()
	call(t, b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width:             width,
		Height:            900,
		DeviceScaleFactor: 1,
		Mobile:            width < 500,
	})
}

// dark sets the preferred color scheme.
func (b *tab) dark(t *testing.T, is bool) {
	t.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[is]
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// fits fails the test if a page scrolls sideways at one of some widths, or a part of it is cut or runs out of its box.
func (b *tab) fits(t *testing.T, what string, widths ...int64) {
	t.Helper()
	for _, width := range widths {
		b.sized(t, width)
		if out := ask[string](t, b, `(() => {
			const over = document.scrollingElement.scrollWidth - innerWidth;
			const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
			const cut = [...document.querySelectorAll("body *")].filter((e) => e.scrollWidth > e.clientWidth + 1 &&
				e.clientWidth > 1 && !scrolls(e) && !e.closest("svg, .swagger-ui, .hide, .skip, input, select, textarea") &&
				getComputedStyle(e).display !== "inline");
			return (over > 0 ? over + " pixels too wide\n" : "") +
				cut.slice(-3).map((e) => e.scrollWidth + " in " + e.clientWidth + ": " + e.outerHTML.slice(0, 160)).join("\n");
		})()`); out != "" {
			t.Errorf("%s, in a window of %d: %s", what, width, out)
		}
	}
}

// everyWidth are the widths at which every page is measured.
var everyWidth = []int64{320, 360, 768, 1280, 1920, 2560}

// scripts allows scripts, or not.
func (b *tab) scripts(t *testing.T, run bool) {
	t.Helper()
	call(t, b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !run})
}

// press presses a key n times.
func (b *tab) press(t *testing.T, key string, code int64, times int) {
	t.Helper()
	text := ""
	if key == "Enter" {
		text = "\r"
	}
	for range times {
		call(t, b, input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type:                  input.DispatchKeyEventTypeKeyDown,
			Key:                   key,
			Code:                  key,
			Text:                  text,
			WindowsVirtualKeyCode: code,
		})
		call(t, b, input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type:                  input.DispatchKeyEventTypeKeyUp,
			Key:                   key,
			Code:                  key,
			WindowsVirtualKeyCode: code,
		})
	}
}

const (
	tabKey   = 9
	enterKey = 13
)

// watchFocus records where the focus goes, and whether it is visible: when it arrives, or where it rests until the
// next key.
const watchFocus = `window.visited = new Set(); window.seen = new Set();
	document.activeElement?.blur();
	window.look = () => {
		const at = document.activeElement, s = getComputedStyle(at);
		if (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2) window.seen.add(at);
	};
	document.addEventListener("focusin", (e) => { window.visited.add(e.target); window.look(); });
	document.addEventListener("keydown", window.look, true); true`

const reachable = `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, " +
	"summary, [tabindex='0']")]
	.filter((e) => e.checkVisibility({visibilityProperty: true}) && !e.disabled)`

// stops returns how often the tab key is pressed to reach all controls. A field for date and time has seven stops.
func (b *tab) stops(t *testing.T) int {
	t.Helper()
	return ask[int](t, b, reachable+`.reduce((n, e) => n + (e.type === "datetime-local" ? 7 : 1), 1)`)
}

// byKeys walks through the page with the tab key, which reaches all controls and shows the focus.
func (b *tab) byKeys(t *testing.T, what string) {
	t.Helper()
	ask[bool](t, b, watchFocus)
	b.press(t, "Tab", tabKey, b.stops(t))
	for _, unseen := range ask[[]string](t, b, "(window.look(), [...window.visited].filter((e) => "+
		"!window.seen.has(e)).map((e) => e.outerHTML.slice(0, 140)))") {
		t.Errorf("%s: the focus can't be seen on %s", what, unseen)
	}
	for _, missed := range ask[[]string](t, b, reachable+".filter((e) => !window.visited.has(e)).map((e) => "+
		"e.outerHTML.slice(0, 140))") {
		t.Errorf("%s: keys don't come to %s", what, missed)
	}
}

// pressButton reaches a button or link whose text has a prefix with the tab key, and presses it.
func (b *tab) pressButton(t *testing.T, name string) {
	t.Helper()
	ask[bool](t, b, "document.activeElement?.blur(); true")
	var all []string
	for range b.stops(t) {
		b.press(t, "Tab", tabKey, 1)
		found := ask[string](t, b, `(document.activeElement?.innerText ?? "").trim()`)
		if strings.HasPrefix(found, name) {
			b.press(t, "Enter", enterKey, 1)
			return
		}
		all = append(all, found)
	}
	t.Fatalf("keys come to no button %q, but to %q", name, all)
}

// leave presses a button, and waits for the next page.
func (b *tab) leave(t *testing.T, button string) {
	t.Helper()
	ask[bool](t, b, `document.documentElement.dataset.left = "yes"; true`)
	b.pressButton(t, button)
	b.until(t, "the page after "+button+" is there", `!document.documentElement.dataset.left`)
}

// pictures saves screenshots of the page in each size, light and dark, to the directory CARILLON_TEST_PICTURES, if
// set.
func (b *tab) pictures(t *testing.T, name string) {
	t.Helper()
	directory := os.Getenv("CARILLON_TEST_PICTURES")
	if directory == "" {
		return
	}
	for _, width := range []int64{360, 1280, 2560} {
		for _, dark := range []bool{false, true} {
			b.sized(t, width)
			b.dark(t, dark)
			image := call(t, b, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{CaptureBeyondViewport: new(
				true)}).Data
			file := fmt.Sprintf("%s/%s-%d%s.png", directory, name, width, map[bool]string{true: "-dark"}[dark])
			must.OK(t, os.WriteFile(file, image, 0o600))
		}
	}
}
