package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Theme is the look of the console.
type Theme struct {
	Name, LogoFile string
	Logo           []byte
	LogoType       string // media type of Logo
	Light, Dark    string // colors, both or none
}

// The bounds of a theme.
const (
	maxThemeName = 40
	maxLogo      = 256 << 10
	minContrast  = 4.5 // of text, by WCAG 2
)

var (
	color     = regexp.MustCompile("^#[0-9a-fA-F]{6}$")
	logoTypes = map[string]string{".svg": "image/svg+xml", ".png": "image/png"}
)

// UnmarshalText reads name=…,logo=FILE,light=#RRGGBB,dark=#RRGGBB, of which any may be missing.
func (t *Theme) UnmarshalText(text []byte) error {
	*t = Theme{}
	for part := range strings.SplitSeq(string(text), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "name":
			t.Name = value
		case "logo":
			t.LogoFile = value
		case "light":
			t.Light = value
		case "dark":
			t.Dark = value
		case "":
		default:
			return fmt.Errorf("%q is none of name, logo, light and dark", name)
		}
	}
	return errors.Join(t.checkColors(), t.readLogo())
}

// String returns the theme as it is set.
func (t Theme) String() string {
	var parts []string
	for _, part := range [][2]string{{"name", t.Name}, {"logo", t.LogoFile}, {"light", t.Light}, {"dark", t.Dark}} {
		if part[1] != "" {
			parts = append(parts, part[0]+"="+part[1])
		}
	}
	return strings.Join(parts, ",")
}

// checkColors refuses colors that can't be read: light is that of links on white and of buttons with white text, dark
// that of links on nearly black.
func (t *Theme) checkColors() error {
	switch {
	case len([]rune(t.Name)) > maxThemeName:
		return fmt.Errorf("name must have at most %d characters", maxThemeName)
	case t.Light == "" && t.Dark == "":
		return nil
	case !color.MatchString(t.Light) || !color.MatchString(t.Dark):
		return errors.New("light and dark must both be colors such as #0b57a4")
	case contrast(t.Light, "#ffffff") < minContrast:
		return fmt.Errorf("light must be darker: its contrast with white is %.1f, and must be %.1f",
			contrast(t.Light, "#ffffff"), minContrast)
	case contrast(t.Dark, "#1e2024") < minContrast:
		return fmt.Errorf("dark must be lighter: its contrast with black is %.1f, and must be %.1f",
			contrast(t.Dark, "#1e2024"), minContrast)
	}
	return nil
}

func (t *Theme) readLogo() (err error) {
	if t.LogoFile == "" {
		return nil
	}
	if t.LogoType = logoTypes[strings.ToLower(filepath.Ext(t.LogoFile))]; t.LogoType == "" {
		return errors.New("logo must be an .svg or a .png file")
	}
	if t.Logo, err = os.ReadFile(t.LogoFile); err != nil {
		return fmt.Errorf("logo can't be read: %w", err)
	}
	if len(t.Logo) == 0 || len(t.Logo) > maxLogo {
		return fmt.Errorf("logo must have at most %d KiB", maxLogo>>10)
	}
	return nil
}

// contrast returns the contrast of two colors, by WCAG 2.
func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(of string) (sum float64) {
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(of[1+2*i:3+2*i], 16, 8)
		part := float64(n) / math.MaxUint8
		if part <= 0.04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		sum += weight * part
	}
	return sum
}
