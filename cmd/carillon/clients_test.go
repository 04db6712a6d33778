//go:build nightly

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Generators of clients in Go, and what the code of the first one needs.
const (
	oapiCodegen = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
	oapiRuntime = "github.com/oapi-codegen/runtime@v1.9.0"
	ogen        = "github.com/ogen-go/ogen/cmd/ogen@v1.25.0"

	// Webhooks are used by no path: without skip-prune their types are left out.
	oapiSettings = "generate: { models: true, client: true }\noutput-options: { skip-prune: true }\n"

	// clientProgram uses the clients of both generators, and the types of a webhook.
	clientProgram = `package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"clients/admin"
	"clients/ogenadmin"
	"clients/ogenpublic"
	"clients/public"
)

var api, key, operators, token = os.Args[1], os.Args[2], os.Args[3], os.Args[4]

func bearer(secret string) func(context.Context, *http.Request) error {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+secret)
		return nil
	}
}

type secrets struct{}

func (secrets) ApiKey(context.Context, ogenpublic.OperationName) (ogenpublic.ApiKey, error) {
	return ogenpublic.ApiKey{Token: key}, nil
}

func (secrets) Token(context.Context, ogenadmin.OperationName) (ogenadmin.Token, error) {
	return ogenadmin.Token{Token: token}, nil
}

func must[T any](got T, err error) T {
	if err != nil {
		panic(err)
	}
	return got
}

func main() {
	ctx := context.Background()
	fmt.Println(public.NewsItemAdded{Data: public.NewsItemAddedData{Title: "Snow"}}.Sequence)

	first := must(public.NewClientWithResponses(api, public.WithRequestEditorFn(bearer(key))))
	made := must(first.CreateFeedWithResponse(ctx, public.CreateFeed{Name: "Concerts", Description: "In town"}))
	fmt.Println("made", made.JSON201.Data.Name)
	to := must(first.CreateDestinationWithResponse(ctx, public.CreateDestination{
		Name:   "Receiver",
		Config: public.Config{Url: "https://127.0.0.1:1/"},
	})).JSON201.Data.Id.String()
	states, types := public.DeliveryStates{"failing", "waiting"}, public.EventTypes{"news.*", "event.item.added"}
	id, when, limit := uuid.New(), time.Now().Add(-time.Hour).Truncate(time.Second), 7
	until := when.Format(time.RFC3339)
	list := must(first.ListAllDeliveriesWithResponse(ctx, &public.ListAllDeliveriesParams{
		Status: &states, Type: &types, FeedId: &id, EventId: &id, Destination: &to,
		Since: &when, Until: &until, Limit: &limit,
	}))
	ofOne := must(first.ListDeliveriesWithResponse(ctx, to, &public.ListDeliveriesParams{
		Status: &states, Type: &types, FeedId: &id, Since: &when, Until: &when, Limit: &limit, Offset: &limit,
	}))
	events := must(first.ListEventsWithResponse(ctx, &public.ListEventsParams{
		Type: &types, FeedId: &id, Subject: &to, Since: &when, Until: &until, Limit: &limit,
	}))
	fmt.Println("filtered", list.JSON200 != nil, ofOne.JSON200 != nil, events.JSON200 != nil)
	all := must(must(admin.NewClientWithResponses(operators, admin.WithRequestEditorFn(bearer(token)))).
		ListOrganizationsWithResponse(ctx))
	fmt.Println("organizations", len(all.JSON200.Data.Items) > 0)

	second := must(ogenpublic.NewClient(api, secrets{}))
	feed := must(second.CreateFeed(ctx, &ogenpublic.CreateFeed{Name: "Talks", Description: "In town"}))
	fmt.Println("made", feed.(*ogenpublic.CreateFeedCreatedHeaders).Response.Data.Name)
	deliveries := must(second.ListAllDeliveries(ctx, ogenpublic.ListAllDeliveriesParams{
		Status:      []ogenpublic.DeliveryFilter{ogenpublic.DeliveryFilterFailing, ogenpublic.DeliveryFilterPending},
		Type:        types,
		FeedId:      ogenpublic.NewOptUUID(id),
		EventId:     ogenpublic.NewOptUUID(id),
		Destination: ogenpublic.NewOptString(to),
		Since:       ogenpublic.NewOptDateTime(when),
		Limit:       ogenpublic.NewOptInt(limit),
	}))
	_, listed := deliveries.(*ogenpublic.ListAllDeliveriesOKHeaders)
	fmt.Println("filtered", listed)
	organizations := must(must(ogenadmin.NewClient(operators, secrets{})).ListOrganizations(ctx))
	fmt.Println("organizations", len(organizations.(*ogenadmin.ListOrganizationsOKHeaders).Response.Data.Items) > 0)
}
`
)

// TestGeneratedClientsWork generates clients in Go from each document by two generators, and uses them.
func TestGeneratedClientsWork(t *testing.T) {
	t.Parallel()
	s := development(t)
	dir := t.TempDir()
	run := func(program string, args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
		said, err := command.CombinedOutput()
		return string(said), err
	}
	golang := func(args ...string) {
		t.Helper()
		said, err := run("go", args...)
		must.True(t, err == nil, "go %q: %v\n%.4000s", args, err, said)
	}
	write := func(name, content string) {
		t.Helper()
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	golang("mod", "init", "clients")
	if said, err := run("go", "mod", "download", oapiRuntime); err != nil {
		t.Skipf("SKIPPED: no module proxy gives %s, so that no client was generated: %.300s", oapiRuntime, said)
	}
	for name, document := range map[string]func() ([]byte, error){"public": httpapi.OpenAPI, "admin": adminapi.OpenAPI} {
		content := must.Get(document())(t)
		must.OK(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		write(name+".json", string(content))
		write(name+".yaml", "package: "+name+"\noutput: "+name+"/client.go\n"+oapiSettings)
		golang("run", oapiCodegen, "-config", name+".yaml", name+".json")
		golang("run", ogen, "--target", "ogen"+name, "--package", "ogen"+name, name+".json")
	}
	write("main.go", clientProgram)
	golang("get", oapiRuntime)
	golang("mod", "tidy")
	golang("build", "-o", "clients", ".")
	token := must.Get((&config.Client{DataDir: s.flags[1]}).Token())(t)
	const want = "\nmade Concerts\nfiltered true true true\norganizations true\nmade Talks\nfiltered true\norganizations true\n"
	said, err := run(filepath.Join(dir, "clients"), "http://"+s.app.APIAddr().String(), s.key,
		"http://"+s.app.AdminAddr().String(), token)
	assert.True(t, err == nil && said == want, "%v, %s", err, said)
}
