package console

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"carillon/query"
)

// Theme is the look of an installation. The zero Theme is that of Carillon.
type Theme struct {
	Name string
	Logo []byte
	// LogoType is the media type of Logo.
	LogoType string
	// Light and Dark are colors such as #0b57a4: of buttons, and of links on light and on dark ground. Both or none.
	Light, Dark string
}

const productName = "Carillon"

// shown returns the theme with the name that pages show.
func (t Theme) shown() Theme {
	t.Name = cmp.Or(t.Name, productName)
	return t
}

func (c *Console) themeRoutes(r chi.Router) {
	r.Get("/theme.css", func(w http.ResponseWriter, r *http.Request) {
		c.asset(w, r, "text/css; charset=utf-8", []byte(c.Theme.css()))
	})
	r.Get("/logo", func(w http.ResponseWriter, r *http.Request) { c.asset(w, r, c.Theme.LogoType, c.Theme.Logo) })
}

// asset serves a part of the theme. An image can't run scripts, even if it is opened by itself: see policy.
func (c *Console) asset(w http.ResponseWriter, r *http.Request, mediaType string, content []byte) {
	if len(content) == 0 {
		c.fail(w, r, query.ErrNotFound)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func (t Theme) css() string {
	if t.Light == "" {
		return ""
	}
	return fmt.Sprintf(":root { --brand: %[1]s; --link: light-dark(%[1]s, %[2]s); --focus: light-dark(%[1]s, %[2]s); }\n",
		t.Light, t.Dark)
}
