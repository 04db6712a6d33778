// Package console serves the web console: pages over the same queries and commands as the API, at /console.
//
// Each resource has one file with its routes and their handlers, and its templates of the same name. A handler reads
// the request, calls one command or query, and returns a page to show or an address to redirect to; it never writes
// an answer itself. Every change has two steps: a page that describes the effect, and the POST of its only form.
// Pages work without JavaScript; scripts are in static/console.js. All visible texts are in the templates.
package console
