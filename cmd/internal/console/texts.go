package console

// The sentences of pages are in their templates. What the program chooses among is here; what is wrong with a field is said where it
// is checked, in the words of the API, by wire.Fail.

// said is what a page says at its top of the change that led to it, by the word that its address has.
var said = map[string]string{
	"created": "The destination was created.", "saved": "The changes were saved.", "enabled": "The destination is enabled.",
	"disabled": "The destination is disabled.", "deleted": "The destination was deleted.", "rotated": "There is a new secret. The old one signs for another 24 hours.",
	"expired": "The secret has expired.", "replayed": "The delivery will be sent again.",
	"collecting": "The source will be collected as soon as its host has a turn for it.", "paused": "The source is paused: nobody visits it.",
	"resumed": "The pause has ended: the source is visited next.", "rebuilding": "It is being rebuilt. The old one serves until the new one is done.",
	"feedback": "Thank you. That is recorded.", "feed-created": "The feed was created. Attach a source, and what it shows comes in.",
	"feed-deleted": "The feed was deleted.", "attached": "The source is attached. What it shows already is coming in.", "detached": "The source was detached.",
	"registered": "The source is known now. It is visited once it is attached to a feed: its id is below.",
}

// What the page of a failure says, and what to do then.
const (
	notFoundTitle, notFoundText, notFoundAdvice = "Not found", "There is nothing here.", "It may have been deleted, or the address is not quite right."
	brokenText, brokenAdvice                    = "Something went wrong on our side.", "Try again. If it stays so, tell the operator this id:"
	forbiddenTitle, forbiddenAdvice             = "Not yours to do", "Sign out, and sign in with a token that may."
	failedTitle, failedAdvice                   = "That did not work", "Go back, correct that, and try again."
	unavailableAdvice                           = "Nothing was lost. Load the page again in a moment."
	signedOutTitle                              = "You were signed out"
	notMade                                     = "This page could not be made. Try again, and tell the operator if it stays so."
)

// What a field has become since a form was opened.
const isNone = "none"

var onOff = map[bool]string{true: "on", false: "off"}

// Why something is refused.
const (
	openedForOthers  = "this form was opened for another organization, and you have signed in as %s since: send it again if you mean that one"
	changedMeanwhile = "this was changed since you opened the form, in another tab or by somebody else. Nothing of yours is lost: it is below, beside what it is now. Send it again to put yours in its place"
	signedOut        = "the sign-in has ended, and nothing was done"
	notOfThisConsole = "This was not sent by a page of the console, so nothing was changed. Open the console and do it there."
	tooManyPages     = "too many pages are open: close some, or load this one again by hand"
	auditorsLook     = "an auditor's token opens the record and the consumers, and changes nothing; this is for operators"
	boundToOne       = "this token opens the record of one organization; consumers are of all"
	ofTheirPeople    = "secrets, and settings that hold some, are for the people of the organization: open its console with a login link"
	missingScope     = "the API key that you signed in with has not the scope %s, which this needs: sign in with one that has it"
	unreadable       = "this can't be read any more: rotate the secret, and set the address and the headers anew"
	notValid         = "this %s is not valid: it is unknown, expired or revoked"
	tooManyGuesses   = "too many failed tries from this address: wait %s and try again"
	usedLink         = "this link was used already, or is too old: a link works once, within 15 minutes. Ask for a new one"
	noReadModel      = "no read model has this name"
	rebuildingNow    = "%s is being rebuilt already: the list shows how far it is"
	tryingOthers     = "other sources are being tried at this moment: try again when they are done"
	triedTooLong     = "it took longer than %s, which is all that a trial gets: a collection takes its time"
	notBegun         = "the server is stopping, or does no work: nothing was begun"
	notResumed       = "the server is stopping, or does no work: try again in a moment"
	tooManyToReplay  = "is too long ago: %d deliveries would be sent again, and %d can be at one time. Narrow the time and do it in parts, the oldest first"
)

// How far work has come.
const (
	workDoneOf  = "%d of %d"
	hadThem     = ", of which %d had their delivery already"                         // also those that it was given before an interruption
	couldNotAsk = ", of which %d are on their way already or can't be sent any more" // which were refused
)
