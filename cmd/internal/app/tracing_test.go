package app_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"carillon/cmd/internal/config"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// span is one that a collector received.
type span struct {
	trace, id, parent, name, service, outcome string
	status                                    int64
}

// traceCollector takes spans by OTLP over HTTP.
type traceCollector struct {
	*httptest.Server
	testing.TB

	mu    sync.Mutex
	raw   bytes.Buffer
	spans []span
}

// newTraceCollector has the processes of a test, which can't be parallel, send their spans to it.
func newTraceCollector(t *testing.T) *traceCollector {
	t.Helper()
	c := &traceCollector{TB: t}
	c.Server = httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(c.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_SERVICE_NAME", "ringers")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	return c
}

func (c *traceCollector) receive(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		c.Errorf("spans to %s: %v", r.URL.Path, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	for _, resource := range request.GetResourceSpans() {
		var service string
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				got := span{
					trace:   hex.EncodeToString(s.GetTraceId()),
					id:      hex.EncodeToString(s.GetSpanId()),
					parent:  hex.EncodeToString(s.GetParentSpanId()),
					name:    s.GetName(),
					service: service,
				}
				for _, a := range s.GetAttributes() {
					switch a.GetKey() {
					case "carillon.outcome":
						got.outcome = a.GetValue().GetStringValue()
					case "http.response.status_code":
						got.status = a.GetValue().GetIntValue()
					}
				}
				c.spans = append(c.spans, got)
			}
		}
	}
}

// of returns the spans of a trace by their names and outcomes.
func (c *traceCollector) of(trace string) map[string]span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]span{}
	for _, s := range c.spans {
		if s.trace == trace {
			found[strings.TrimSpace(s.name+" "+s.outcome)] = s
		}
	}
	return found
}

// named returns a span by its name.
func (c *traceCollector) named(name string) span {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.name == name {
			return s
		}
	}
	return span{}
}

// A request to publish, its appends, the dispatch in one process, and two attempts in another are one trace. It
// continues that of the caller, and neither addresses nor headers of the receiver are in it.
func TestTracing_overProcessesAndRetries(t *testing.T) {
	spans := newTraceCollector(t)
	address := nodetest.Listen(t, node.Config{Dir: shortDir(t)})
	p := newProcess(t, func(c *config.Config) {
		c.EventStoreURL = config.Address("esdb://" + address + "?tls=false")
		c.Roles = []string{config.RoleAPI, config.RoleProject, config.RoleDispatch}
	})
	deliverer := &process{TB: t, cfg: p.cfg, organization: p.organization}
	deliverer.cfg.HTTPAddr = p.app.APIAddr().String() // on which it does not listen
	deliverer.cfg.Roles = []string{config.RoleDeliver}
	deliverer.open()
	url, arrived := p.endpoint(statuses(http.StatusInternalServerError, http.StatusNoContent))
	p.connect("crm", url+"/hidden?token=hidden", 0)
	p.call(http.MethodPatch, destinations+"crm", map[string]any{"traceparent": true}, http.StatusOK)

	const trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	p.publishTraced("00-" + trace + "-" + caller + "-01")
	header := p.await(arrived).header
	shown := header.Get("traceparent")
	assert.Equal(t, header.Get("tracestate"), callersState, "the receiver got tracestate")
	retried := p.await(arrived).header
	id := retried.Get("webhook-id")
	assert.Equal(t, retried.Get("tracestate"), callersState, "the retry has tracestate")
	const (
		request, dispatch, first, second = "POST /admin/events", "dispatch", "attempt http_status", "attempt succeeded"
	)
	var found map[string]span
	p.eventually("all spans are there", func() bool {
		found = spans.of(trace)
		for _, name := range []string{request, "append publication", dispatch, "append dispatch", first, second,
			"append delivery"} {
			if found[name].id == "" {
				return false
			}
		}
		return true
	})
	for child, parent := range map[string]string{
		request:              caller,
		"append publication": found[request].id,
		dispatch:             found[request].id,
		"append dispatch":    found[dispatch].id,
		first:                found[dispatch].id,
		second:               found[first].id,
	} {
		if found[child].parent != parent || found[child].service != "ringers" {
			t.Errorf("%s = %+v, want below %s", child, found[child], parent)
		}
	}
	if want := "00-" + trace + "-" + found[first].id + "-01"; shown != want {
		t.Errorf("the receiver got traceparent %q, want %q", shown, want)
	}
	for name, status := range map[string]int64{request: 200, first: 500, second: 204} {
		assert.Equal(t, found[name].status, status, "%s has status", name)
	}
	p.call(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusAccepted)
	p.eventually("an attempt is below the request to replay", func() bool {
		replay := spans.named("POST /events/deliveries/{id}/replay")
		again := spans.of(replay.trace)[second]
		return again.id != "" && again.parent == replay.id
	})
	spans.mu.Lock()
	defer spans.mu.Unlock()
	assert.True(t, !bytes.Contains(spans.raw.Bytes(), []byte("hidden")) &&
		!bytes.Contains(spans.raw.Bytes(), []byte(p.key)), "spans contain an address, or a key")
}

const callersState = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"

// publishTraced publishes news by a request that is part of a trace.
func (p *process) publishTraced(traceparent string) {
	p.Helper()
	body := fmt.Sprintf(`{"type":"news.item.added","source":"/news","organizationId":%q,`+
		`"data":{"id":"7","title":"Storm"}}`, p.organization)
	token := p.adminToken()
	request := must.Get(http.NewRequestWithContext(p.Context(), http.MethodPost,
		"http://"+p.app.AdminAddr().String()+"/admin/events", strings.NewReader(body)))(p)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("traceparent", traceparent)
	request.Header.Set("tracestate", callersState)
	status, answer := p.send(request)
	must.True(p, status == http.StatusOK, "publish: %d %s", status, answer)
}
