package httpapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
)

// Each setting that is declared is set by POST, by PUT and by PATCH alone, cleared by PUT without it, and read back in
// every answer.
func TestSettingsReachEveryAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ask := func(method, path string, status int, body map[string]any) (answer map[string]any) {
		t.Helper()
		text := ""
		if body != nil {
			encoded, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			text = string(encoded)
		}
		s.do(t, request{method: method, path: destinationsPath + path, body: text}).into(t, status, &answer)
		return answer
	}
	for _, d := range destination.Fields {
		given, ok := map[string]any{
			"name":                  "Renamed",
			"url":                   receiverURL(t, 204),
			"externalId":            "crm-" + uuid.NewString(),
			"debounceWindowSeconds": 7.0,
			"maxRequestsPerSecond":  2.5,
			"traceparent":           true,
			"headers":               map[string]any{"X-A": "b"},
		}[d.Name]
		if !ok {
			t.Errorf("give %s an example", d.Name)
			continue
		}
		place := func(of map[string]any) map[string]any {
			if d.Field.Has(destination.FieldURL | destination.FieldHeaders) {
				return of["config"].(map[string]any)
			}
			return of
		}
		shows := func(what string, answer map[string]any) {
			t.Helper()
			if diff := cmp.Diff(given, place(answer)[d.Name]); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", d.Name, what, diff)
			}
		}
		plain := map[string]any{"name": "CRM", "config": map[string]any{"url": receiverURL(t, 204)}}
		whole := map[string]any{"name": "CRM", "config": map[string]any{"url": receiverURL(t, 204)}}
		alone := map[string]any{"config": map[string]any{}}
		place(whole)[d.Name], place(alone)[d.Name] = given, given

		created := ask("POST", "", 201, whole)
		path := fmt.Sprint("/", created["id"])
		shows("created", created)
		shows("read", ask("GET", path, 200, nil))
		items := ask("GET", "?limit=100", 200, nil)["items"].([]any)
		listed := slices.IndexFunc(items, func(item any) bool { return item.(map[string]any)["id"] == created["id"] })
		shows("listed", items[listed].(map[string]any))
		shows("kept by a change of another", ask("PATCH", path, 200, map[string]any{"status": "disabled"}))
		if d.Field == destination.FieldExternalID { // PUT has it in its path
			path = fmt.Sprint("/", ask("POST", "", 201, plain)["id"])
			given = "crm-" + uuid.NewString()
			alone[d.Name] = given
		} else {
			if cleared := ask("PUT", path, 200, plain); cmp.Equal(given, place(cleared)[d.Name]) {
				t.Errorf("%s is not cleared by PUT", d.Name)
			}
			shows("replaced", ask("PUT", path, 200, whole))
			ask("PUT", path, 200, plain)
		}
		shows("changed alone", ask("PATCH", path, 200, alone))
		shows("read after PATCH", ask("GET", path, 200, nil))
	}
}
