package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"carillon/aggregates/destination"
	"carillon/aggregates/source"
	"carillon/cmd/internal/wire"
)

// formField is a field of forms.
type formField struct {
	name  string // in refusals
	input string // its id
	label string
	words issues // in place of those of the API. Optional.
}

// issues follow the label of a field.
type issues map[wire.Kind]string

// formFields maps the fields that refusals name to those of forms, in the order of forms.
var formFields = append([]formField{
	{"name", "name", "Name", nil},
	{"description", "description", "Description", nil},
	{"config.url", "url", "Address", nil},
	{"eventTypes", "types", "Events", issues{wire.Invalid: typeUnknown}},
	{"scopeKind", "scope", "Of which feeds", nil},
	{"feedType", "scope", "Of which feeds", nil},
	{"feeds", "feeds", "Feeds", nil},
	{"config.headers", "headers", "Custom headers", nil},
	{"debounceWindowSeconds", "debounce", "Debounce window", nil},
	{"maxRequestsPerSecond", "limit", "Requests per second", issues{wire.BadBody: limitBounds}},
	{"traceparent", "traceparent", "Header traceparent", nil},
	{"externalId", "externalId", "External id", issues{wire.Exists: nameTaken, wire.Conflict: nameContended}},
	{"url", "where", "Address", issues{wire.NotFound: noSourceAt}},
	{"handle", "where", "Account", nil},
	{"type", "type", "Type", nil},
	{"sourceType", "type", "Type", nil},
	{"timezone", "timezone", "Default time zone", nil},
	{"sourceId", "source", "Id of the source", issues{wire.NotFound: noSourceWithID}},
}, selectorFields()...)

func selectorFields() (fields []formField) {
	for _, n := range new(source.Selectors).Named() {
		fields = append(fields, formField{n.Name, n.Name, upperFirst(n.Name), nil})
	}
	return fields
}

// labelOf returns the label of an input.
func labelOf(input string) string {
	for _, field := range formFields {
		if field.input == input {
			return field.label
		}
	}
	return upperFirst(input)
}

var limitBounds = fmt.Sprintf(limitBoundsText, destination.LeastRequestsPerSecond, destination.MostRequestsPerSecond)

// wrongField is a refused input of a form.
type wrongField struct {
	Input, Message string
	order          int // its place in the form
}

// remarks are shown above a form that is shown again, and at its fields.
type remarks struct {
	Above []string // refusals that name no field
	Wrong []wrongField
	Now   map[string]string // current values of inputs that others changed since the form was opened
}

// remark is about one input.
type remark struct {
	Input      string
	Wrong, Now string
	Ids        string // of the texts that describe the input
}

// At returns the remarks about an input. The id of its hint is optional.
func (r remarks) At(input string, hint ...string) remark {
	at := remark{Input: input, Now: r.Now[input]}
	for _, w := range r.Wrong {
		if w.Input == input {
			at.Wrong, hint = w.Message, append(hint, input+"-wrong")
		}
	}
	if at.Now != "" {
		hint = append(hint, input+"-now")
	}
	at.Ids = strings.Join(hint, " ")
	return at
}

// add adds a refusal. The first of each input counts.
func (r *remarks) add(f *wire.Failure) {
	name, _, _ := strings.Cut(f.Field, "[")
	place := slices.IndexFunc(formFields, func(field formField) bool { return field.name == name })
	if place < 0 {
		r.Above = append(r.Above, upperFirst(f.Error())+".")
		return
	}
	field := formFields[place]
	if r.At(field.input).Wrong != "" {
		return
	}
	r.Wrong = append(r.Wrong, wrongField{
		Input:   field.input,
		Message: field.message(f),
		order:   place,
	})
	slices.SortFunc(r.Wrong, func(a, b wrongField) int { return a.order - b.order })
}

// message returns a refusal as a sentence that begins with the label of the field.
func (f formField) message(refused *wire.Failure) string {
	if words := f.words[refused.Kind]; words != "" {
		return f.label + " " + words + "."
	}
	if issue, found := strings.CutPrefix(refused.Issue, refused.Field+": "); found {
		return f.label + ": " + issue + "."
	}
	return f.label + " " + refused.Issue + "."
}

// separate returns the errors that were joined.
func separate(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // it goes through the chain itself
	if !ok {
		return []error{err}
	}
	for _, one := range joined.Unwrap() {
		all = append(all, separate(one)...)
	}
	return all
}

// correctable reports whether a form can be corrected and sent again.
func correctable(f *wire.Failure) bool {
	switch f.Kind {
	case wire.BadBody, wire.BadQuery, wire.Invalid, wire.Exists, wire.Conflict, wire.RateLimited:
		return true
	case wire.NotFound:
		return f.Field != ""
	default:
		return false
	}
}

// typedForm is a form as typed.
type typedForm interface {
	// screen returns the page of the form.
	screen() screen
	// refusals returns the place of the remarks on the form.
	refusals() *remarks
}

func (r *remarks) refusals() *remarks { return r }

// form serves a form: it reads and submits it, and redirects to the next address if there is one. Otherwise it shows
// the form again, with the values typed and all refusals.
func form[F typedForm](
	c *Console, read func(*visit) (F, error), submit func(v *visit, typed F) (next string, err error),
) http.HandlerFunc {
	return c.handle(func(w http.ResponseWriter, v *visit) error {
		typed, err := read(v)
		if err != nil {
			return err
		}
		next, err := submit(v, typed)
		if err == nil && next != "" {
			http.Redirect(w, v.Request, next, http.StatusSeeOther)
			return nil
		}
		status := 0
		if err != nil {
			for _, one := range separate(err) {
				failure := wire.FailureOf(one)
				if !correctable(failure) {
					return one
				}
				typed.refusals().add(failure)
			}
			wire.NoteFailure(v.Context(), wire.FailureOf(err))
			status = wire.FailureOf(err).Status()
		}
		shown := typed.screen()
		shown.Status = status
		c.render(w, v.Request, shown)
		return nil
	})
}
