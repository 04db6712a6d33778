package wire

import "net/http"

// With makes a Handler of one with an argument, which is read from the request first.
func With[A any](read func(*http.Request) (A, error), h func(*http.Request, A) (Reply, error)) Handler {
	return func(r *http.Request) (Reply, error) {
		a, err := read(r)
		if err != nil {
			return Reply{}, err
		}
		return h(r, a)
	}
}

// With2 is With for two arguments, which are read in this order.
func With2[A, B any](
	first func(*http.Request) (A, error), second func(*http.Request) (B, error),
	h func(*http.Request, A, B) (Reply, error),
) Handler {
	return With(first, func(r *http.Request, a A) (Reply, error) {
		return With(second, func(r *http.Request, b B) (Reply, error) { return h(r, a, b) })(r)
	})
}

// Empty refuses a body, once the argument of a handler has been read.
func Empty[A any](h func(*http.Request, A) (Reply, error)) func(*http.Request, A) (Reply, error) {
	return func(r *http.Request, a A) (Reply, error) {
		if err := DecodeNothing(r); err != nil {
			return Reply{}, err
		}
		return h(r, a)
	}
}

// NoQuery refuses query parameters, on the Events surface, before a request is handled.
func NoQuery(h Handler) Handler {
	return func(r *http.Request) (Reply, error) {
		if err := Events.ParseQuery(r).Err(); err != nil {
			return Reply{}, err
		}
		return h(r)
	}
}

// ListOf returns the shown form of each; it is never nil.
func ListOf[T, S any](all []T, shown func(T) S) []S {
	list := make([]S, len(all))
	for i, one := range all {
		list[i] = shown(one)
	}
	return list
}
