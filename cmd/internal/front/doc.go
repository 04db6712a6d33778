// Package front takes connections. It stands before the HTTP server of the standard library and is stricter in cases
// that honest clients avoid, and that proxies in front may read differently (request smuggling): lines that end with a
// bare line feed, Content-Length together with Transfer-Encoding or given twice, folded headers. Such a request is
// answered 400, and its connection ends.
//
//	socket ─▶ (TLS) ─▶ framing ─▶ net/http ─▶ handler
//
// Requests with a stray percent sign in their path, or with too large a header, reach the handler too, so that the API
// answers them as all others.
//
// With TLS, the certificate is read again when its files change, and answers make browsers use HTTPS only (HSTS).
// Connections that speak HTTP/2 have frames and no lines: they pass.
package front
