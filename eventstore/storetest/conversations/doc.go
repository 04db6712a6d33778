// Package conversations replays recorded conversations with an EventStoreDB server against another server: it sends the
// same requests and compares the answers.
//
// A file holds the conversations of one area as a JSON array. Each has steps that run in order, on a separate
// connection. Messages are protobuf JSON with the names of the .proto files and 64-bit integers as text, and three
// differences: a bytes field is "b:" plus text, "x:" plus hexadecimal digits or "r:N:x" (a letter N times); a UUID is
// always {"string": …}; google.protobuf.Any has "@type" and the fields of its message. Placeholders stand for values
// that differ from run to run:
//
//	${run}        a random word, part of the names of streams and of event types
//	${id:…}       an id, made when it is first met
//	${p1}, ${p2}  a position, bound when it is first received; the bound values ascend with the number
//	${ticks}      a time in units of 100 ns since 1970
//	${any}        any value of a field that is present
//
// A conversation with a field "ours" is one in which Carillon's node answers differently on purpose, for the reason
// that it has.
package conversations
