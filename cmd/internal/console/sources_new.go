package console

import "carillon/projections/sources"

// newSourcePage is the page of a form for a new source.
var newSourcePage = screen{Title: "Add a source", Template: "source-new"}

// showNewSource answers GET /console/sources/new. The address may have the fields of the source: a trial leads here.
func (c *Console) showNewSource(v *visit) (screen, error) {
	typed := c.readTrial(v.URL.Query().Get)
	typed.page = newSourcePage
	return typed.screen(), nil
}

// addSource answers POST /console/sources/new. It redirects to the source if it already exists.
func (c *Console) addSource(v *visit, typed *trial) (string, error) {
	typed.page = newSourcePage
	made, err := c.Commands.RegisterSource(v.Context(), v.caller(), typed.source())
	next := Base + "/sources/" + made.ID.String() + "?done=registered"
	return c.changed(v, made.Position, err, next, sources.ReadModel.Name)
}
