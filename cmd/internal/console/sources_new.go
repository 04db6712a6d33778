package console

import (
	"net/http"
	"strings"

	"carillon/aggregates/source"
	"carillon/projections/sources"
)

// showNewSource answers GET /console/sources/new. The address may have the fields of the source: a trial leads here.
func (c *Console) showNewSource(v *visit) (screen, error) {
	values := v.URL.Query()
	return newSource(trial{Type: values.Get("type"), Where: values.Get("where"), Timezone: values.Get("timezone")}), nil
}

func newSource(typed trial) screen {
	typed.Types = source.Types()
	return screen{Title: "Add a source", Template: "source-new", Data: typed}
}

// addSource answers POST /console/sources/new. It redirects to the source if it already exists.
func (c *Console) addSource(w http.ResponseWriter, r *http.Request) {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	typed := trial{
		Type:     r.PostFormValue("type"),
		Where:    strings.TrimSpace(r.PostFormValue("where")),
		Timezone: strings.TrimSpace(r.PostFormValue("timezone")),
		Types:    source.Types(),
	}
	next, err := c.registerSource(v, typed)
	c.submitted(w, r, next, err, &typed.remarks, func() screen { return newSource(typed) })
}

func (c *Console) registerSource(v *visit, typed trial) (string, error) {
	made, err := c.Commands.RegisterSource(v.Context(), v.caller(), typed.source())
	if err != nil {
		return "", err
	}
	c.await(v.Context(), made.Position, sources.ReadModel.Name)
	return Base + "/sources/" + made.ID.String() + "?done=registered", nil
}
