// Package wire reads requests and writes answers for both HTTP surfaces.
//
// A handler is a function from a request to a Reply or an error. Everything else happens here, in one place for all
// routes: envelopes, the mapping of errors to statuses and codes, strict decoding of bodies, parameters with errors
// that name them, request ids, the access log.
//
//	request ─▶ RequestID ─▶ AccessLog ─▶ Recover ─▶ RequireTLS ─▶ (authentication) ─▶ Handle(handler) ─▶ Reply
//	                                                     any error ─▶ Surface ─▶ { success: false, error: … }
//
// There are two surfaces with different codes for the same failures: Events and Feeds.
package wire
