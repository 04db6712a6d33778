package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestTheme(t *testing.T) {
	t.Parallel()
	logo := filepath.Join(t.TempDir(), "logo.svg")
	must.OK(t, os.WriteFile(logo, []byte("<svg/>"), 0o600))
	var theme Theme
	set := "name=Town hall,logo=" + logo + ",light=#0b57a4,dark=#8bbdf5"
	must.OK(t, theme.UnmarshalText([]byte(set)))
	assert.True(t, theme.Name == "Town hall" && string(theme.Logo) == "<svg/>" && theme.LogoType == "image/svg+xml" &&
		theme.String() == set, "%+v, %s", theme, theme)
	for set, want := range map[string]string{
		"":                                "",
		"name=Town hall":                  "",
		"light=#0b57a4":                   "both be colors",
		"light=red,dark=#8bbdf5":          "both be colors",
		"light=#8bbdf5,dark=#8bbdf5":      "light must be darker",
		"light=#0b57a4,dark=#0b57a4":      "dark must be lighter",
		"logo=/nowhere.svg":               "logo can't be read",
		"logo=/etc/passwd":                "an .svg or a .png",
		"color=#0b57a4":                   "none of name, logo",
		"name=" + strings.Repeat("x", 41): "at most 40",
	} {
		err := theme.UnmarshalText([]byte(set))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", set, err, want)
		}
	}
}
