package eventstore

import "strings"

// An actor "console:<name>" is a person at the console, whose login link an operator made.
const (
	personPrefix = "console:"
	makerPrefix  = " (by "
	makerSuffix  = ")"
)

// PersonActor returns the actor of a person. name is as MadeBy returns it.
func PersonActor(name string) string { return personPrefix + name }

// MadeBy returns the name of a person beside the actor who made the login link.
func MadeBy(person, maker string) string { return person + makerPrefix + maker + makerSuffix }

// PersonOf returns the person of an actor without the maker of the login link, and whether the actor is a person.
func PersonOf(actor string) (person string, is bool) {
	person, is = strings.CutPrefix(actor, personPrefix)
	if maker := strings.LastIndex(person, makerPrefix); is && maker > 0 && strings.HasSuffix(person, makerSuffix) {
		person = person[:maker]
	}
	return person, is
}
