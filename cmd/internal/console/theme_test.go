package console_test

import (
	"strings"
	"testing"

	"carillon/cmd/internal/console"
)

// TestTheme: a theme gives pages a name, a logo and colors, also before the sign-in.
func TestTheme(t *testing.T) {
	t.Parallel()
	w := open(t)
	deps, api := w.dependencies(t)
	deps.Theme = console.Theme{
		Name:     "Bells & <b>more</b>",
		Logo:     []byte("<svg/>"),
		LogoType: "image/svg+xml",
		Light:    "#0b57a4",
		Dark:     "#8bbdf5",
	}
	c, err := console.New(deps)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{world: w, at: c.Beside(api)}
	signIn := b.get(t, "/console/sign-in").expect(t, 200, "Bells & <b>more</b>", "/console/theme.css", "Carillon v1.2.3")
	if strings.Contains(signIn.body, "<b>more") {
		t.Error("the name is not text")
	}
	b.get(t, "/console/theme.css").expect(t, 200, "--brand: #0b57a4", "light-dark(#0b57a4, #8bbdf5)")
	if logo := b.get(t, "/console/logo").expect(t, 200, "<svg/>"); logo.header.Get("Content-Type") != "image/svg+xml" ||
		!strings.Contains(logo.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("headers of the logo: %v", logo.header)
	}
	plain := &browser{world: w}
	plain.get(t, "/console/logo").expect(t, 404, "Not found")
	if p := plain.get(t, "/console/sign-in").expect(t, 200, "– Carillon"); strings.Contains(p.body, "theme.css") {
		t.Error("a page without a theme asks for one")
	}
}
