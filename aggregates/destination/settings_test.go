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
	for _, setting := range reflect.VisibleFields(reflect.TypeOf(none)) {
		if setting.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(setting.Tag.Get("json"), ",")
		var one destination.Settings
		example := reflect.ValueOf(examples[setting.Type.Kind()]).Convert(setting.Type)
		reflect.ValueOf(&one).Elem().FieldByIndex(setting.Index).Set(example)
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
