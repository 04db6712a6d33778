package arch

import "strings"

// Violates returns why a file of a package may not import a path, or "".
func (r *Rule) Violates(pkg, imported string, test bool) string {
	switch {
	case test && !r.Tests, !matches(pkg, r.Of), matches(pkg, r.Except):
		return ""
	case imported == pkg: // an external test package
		return ""
	case matches(imported, r.Never):
		return r.Why
	case r.Only != nil && !standard(imported) && !matches(imported, r.Only):
		return r.Why
	}
	return ""
}

// matches reports whether an import path is meant by one of the patterns.
func matches(importPath string, patterns []string) bool {
	for _, pattern := range patterns {
		prefix, below := strings.CutSuffix(pattern, "/...")
		switch {
		case pattern == "...", importPath == prefix, below && strings.HasPrefix(importPath, prefix+"/"):
			return true
		}
	}
	return false
}

// standard reports whether a path is one of the standard library: its first element has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return first != "carillon" && !strings.Contains(first, ".")
}
