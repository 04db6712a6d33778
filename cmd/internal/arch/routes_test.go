package arch

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
)

// The handler of a route is found by searching for the route: the handler's doc names it as the interface does, "PUT
// /events/destinations/{ref}".
func TestHandlersNameTheirRoutes(t *testing.T) {
	t.Parallel()
	docs, routes := map[string]string{}, map[string]string{}
	for _, f := range sources(t) {
		if f.test || path.Dir(f.pkg) != "carillon/cmd/internal" || !strings.HasSuffix(f.pkg, "api") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				docs[f.pkg+"."+n.Name.Name] = n.Doc.Text()
			case *ast.CallExpr:
				if route, handler := registered(n); handler != "" {
					routes[route] = f.pkg + "." + handler
				}
			}
			return true
		})
	}
	const atLeast = 50 // there are more: fewer mean that routes are registered in a way that this test doesn't know
	assert.True(t, len(routes) >= atLeast, "found only %d routes", len(routes))
	for route, handler := range routes {
		assert.True(t, names(docs[handler], route), "the doc of %s does not name its route, %s", handler, route)
	}
}

// registered reads the registration of a route, r.Get("/path", wire.Events.Handle(wire.With(read, a.handler))), as
// "GET /path" and the handler's name. The name is empty if a call is no registration, or the handler is a function
// literal.
func registered(call *ast.CallExpr) (route, handler string) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 2 {
		return "", ""
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "", ""
	}
	pattern, err := strconv.Unquote(literal.Value)
	if err != nil || !strings.HasPrefix(pattern, "/") {
		return "", ""
	}
	last := call.Args[1]
	for wrapped, ok := last.(*ast.CallExpr); ok && wraps(wrapped); wrapped, ok = last.(*ast.CallExpr) {
		last = wrapped.Args[len(wrapped.Args)-1]
	}
	switch h := last.(type) {
	case *ast.Ident:
		handler = h.Name
	case *ast.SelectorExpr:
		handler = h.Sel.Name
	}
	return strings.ToUpper(method.Sel.Name) + " " + pattern, handler
}

// wraps reports whether a call makes an http.Handler, or a wire.Handler, of its last argument.
func wraps(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "handle"
	case *ast.SelectorExpr:
		return slices.Contains([]string{"Handle", "With", "With2", "Empty", "EmptyBody", "NoQuery"}, f.Sel.Name)
	}
	return false
}

// names reports whether a text has the words of a route one after the other.
func names(doc, route string) bool {
	words := strings.Fields(doc)
	for i := range len(words) - 1 {
		if words[i]+" "+strings.TrimRight(words[i+1], ".,:;") == route {
			return true
		}
	}
	return false
}
