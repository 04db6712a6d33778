package destination_test

import (
	"reflect"
	"strings"
	"testing"

	"carillon/aggregates/destination"
)

// Each setting has a row that compares it, copies it alone, and has its stored name.
func TestFieldsDeclareAllSettings(t *testing.T) {
	t.Parallel()
	rows := map[string]destination.Declared{}
	all := destination.Field(0)
	for _, d := range destination.Fields {
		rows[d.Name] = d
		all |= d.Field
	}
	rows["address"] = rows["url"]
	if all != destination.FieldsAll || len(destination.Fields) != len(rows)-1 {
		t.Errorf("the rows have fields %b, and all are %b", all, destination.FieldsAll)
	}
	examples := map[reflect.Kind]any{
		reflect.String: "text", reflect.Int: 1, reflect.Float64: 1.5, reflect.Bool: true,
		reflect.Struct: destination.Sealed{Data: []byte("sealed"), Digest: []byte("digest")},
	}
	var none destination.Settings
	settings := reflect.TypeOf(none)
	for i := range settings.NumField() {
		name, _, _ := strings.Cut(settings.Field(i).Tag.Get("json"), ",")
		var one destination.Settings
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(examples[settings.Field(i).Type.Kind()]))
		field := rows[name].Field
		switch {
		case field == 0:
			t.Errorf("%s has no row", name)
		case one.Equal(none):
			t.Errorf("%s is not compared", name)
		case !reflect.DeepEqual(none.With(field, one), one):
			t.Errorf("%s is not copied by its field", name)
		case !none.With(destination.FieldsAll&^field, one).Equal(none):
			t.Errorf("%s is copied by another field", name)
		case rows[name].Text(none) != "":
			t.Errorf("%s has a text without a value", name)
		}
	}
}
