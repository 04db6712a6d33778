package config

import (
	"fmt"
	"reflect"
)

// Named is a setting to be looked at.
type Named struct {
	Variable string // CARILLON_HTTP_ADDR
	Value    string // hidden if it is a secret; "": not set
}

// Named lists all settings in the order of --help. Secrets and passwords are hidden by their types.
func (c *Config) Named() []Named { return named(reflect.ValueOf(c).Elem()) }

func named(settings reflect.Value) (list []Named) {
	for i := range settings.NumField() {
		field, value := settings.Type().Field(i), settings.Field(i)
		variable := field.Tag.Get("env")
		switch {
		case field.Anonymous && value.Kind() == reflect.Struct:
			list = append(list, named(value)...)
		case variable == "":
		case value.Kind() == reflect.Slice && value.Len() == 0:
			list = append(list, Named{Variable: variable})
		default:
			list = append(list, Named{Variable: variable, Value: fmt.Sprint(value.Interface())})
		}
	}
	return list
}
