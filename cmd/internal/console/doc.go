// Package console is what people look at: pages over the same queries and commands as the API, at /console.
//
// Each resource has one file with its routes and their handlers, and its templates of the same name. A handler reads the
// request, calls one command or query, and returns a page to show or an address to go to; it never writes an answer
// itself. Every change has two steps: a page that says what will happen, and the POST of its only form. Pages work
// without JavaScript; what scripts add is in static/live.js. The words that people read are in the templates.
package console
