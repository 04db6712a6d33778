// Package front takes connections. It stands before the HTTP server of the standard library and is stricter in what no
// honest client does, and what proxies in front may read otherwise (request smuggling): lines that end with a bare line
// feed, Content-Length together with Transfer-Encoding or given twice, folded headers. Such a request is answered 400,
// and its connection ends.
//
//	socket ─▶ (TLS) ─▶ framing ─▶ net/http ─▶ handler
//
// Requests with a stray percent sign in their path, or with too large a header, reach the handler too, so that the API
// answers them as all others.
//
// Where TLS is its own, the certificate is read again when its files change, and answers tell browsers to come back
// over HTTPS only (HSTS). Connections that speak HTTP/2 have frames and no lines: they pass.
package front
