package console

// The sentences of pages are in their templates. This file has the texts that the program chooses among; errors of
// fields are written where they are checked, by wire.Fail, and formFields has the names of the fields.

// said maps a word in the address to the sentence at the top of a page about the change that led to it.
var said = map[string]string{
	"created": "The destination was created.", "saved": "The changes were saved.",
	"enabled":  "The destination is enabled.",
	"disabled": "The destination is disabled.", "deleted": "The destination was deleted.",
	"expired": "The secret has expired.", "replayed": "The delivery will be sent again.",
	"retried": "The delivery is due: it is sent as soon as its destination takes it.",
	"recovering": "What waited and what failed is due: it is sent, the oldest first, " +
		"as fast as the destination takes it.",
	"collecting": "The source will be collected when its host has a free turn.", "paused": "The source is paused.",
	"resumed": "The source is resumed and visited next.", "rebuilding": "The rebuild has started. The current one " +
		"serves until it is done.",
	"feedback": "Thank you. That is recorded.", "feed-created": "The feed was created. Attach a source to fill it.",
	"feed-deleted": "The feed was deleted.", "attached": "The source is attached. Its current events are being added.",
	"detached":   "The source was detached.",
	"subscribed": "The subscription was added.", "unsubscribed": "The subscription was deleted.",
	"subscription-on":  "The subscription is on: matching events are sent from now on.",
	"subscription-off": "The subscription is off: nothing is sent for it.",
	"created-only": "The destination was created, but not its subscription. Add one below: without one, nothing is " +
		"sent.",
	"registered": "The source is registered. It is visited once it is attached to a feed: its id is below.",
}

// Texts of the failure page, and its advice.
const (
	notFoundTitle, notFoundText, notFoundAdvice = "Not found", "There is nothing here.",
		"It may have been deleted, or the address is wrong."
	brokenText, brokenAdvice = "Something went wrong on our side.",
		"Try again. If the problem persists, send the operator this id:"
	forbiddenTitle, forbiddenAdvice = "Permission denied", "Sign in with a token that has the permission."
	failedTitle, failedAdvice       = "That did not work", "Go back, correct that, and try again."
	unavailableAdvice               = "Nothing was lost. Load the page again in a moment."
	signedOutTitle                  = "You were signed out"
	notMade                         = "This page could not be rendered. Try again; contact the operator if the " +
		"problem persists."
)

// The current value of a field that changed since a form was opened.
const isNone = "none"

var onOff = map[bool]string{true: "on", false: "off"}

// Reasons for refusals.
const (
	openedForOthers = "this form was opened for another organization, and you have signed in as %s since: submit it " +
		"again for that one"
	changedMeanwhile = "this was changed since you opened the form, in another tab or by another person. Your input is " +
		"below, beside the current values. Submit again to replace them"
	signedOut        = "the sign-in has ended, and nothing was done"
	notOfThisConsole = "This was not sent by a page of the console, so nothing was changed. " +
		"Open the console and do it there."
	auditorsLook  = "an auditor's token reads the record and the consumers only: sign in as an operator"
	boundToOne    = "this token reads the record of one organization only"
	ofTheirPeople = "secrets, and settings that hold some, are for the people of the organization: open its console " +
		"with a login link"
	missingScope    = "this session lacks the scope %s: sign in with a key or link that has it"
	unreadable      = "this can't be read any more: rotate the secret, and set the address and the headers again"
	notValid        = "this %s is not valid: it is unknown, expired or revoked"
	tooManySignIns  = "too many failed sign-ins from this address: wait %s and try again"
	usedLink        = "this link was used or has expired: a link works once, within 15 minutes. Ask for a new one"
	noReadModel     = "no read model has this name: the list of consumers has the names"
	rebuildingNow   = "%s is already being rebuilt: the list shows the progress"
	tryingOthers    = "other trials are running: try again later"
	triedTooLong    = "it took longer than %s, the limit of a trial; a collection has no such limit"
	notRunning      = "the server is stopping, or has no such role: nothing was started; try again in a moment"
	tooManyToReplay = "matches too many: %d deliveries, and at most %d can be sent again at once. Choose a " +
		"shorter period, the oldest first"
)

// hints are those of plain settings, by input.
var hints = map[string]string{
	"debounce": "In seconds. Of events of one type, subject, source and feed within the window, only the newest is " +
		"sent; those without a subject all are. 0: each is.",
	"limit": "At most: from 0.1 (one in 10 s) to 10000. Further deliveries are sent later. Empty: no limit.",
	"traceparent": "It is sent, and names the span of the attempt, so that the trace of your receiver joins that of the " +
		"publication.",
}

// Issues of fields, in place of those of the API; see formFields.
const (
	nameTaken       = "is taken: another one has it"
	nameContended   = "is being changed by another request: try again"
	typeUnknown     = "include a type that is not known: untick it"
	noSourceAt      = "is not that of a known source of this type: ask your operator to add it"
	noSourceWithID  = "is not known: ask your operator for it, or attach a page by its address"
	limitBoundsText = "must be empty, for no limit, or a number from %g to %d"
	maskedAddress   = "is masked: enter it in full"
)

// The choice of events.
const (
	everyType, everyTypeHint = "everything", "Each event that you can see, also of types that are added later."
	everyOfGroupHint         = "All of these, also types that are added later."
	otherPatterns            = "other"
	otherPatternHint         = "Chosen by a program."
	noTypeChosen             = "must be chosen: tick one to %d"
	noFeedChosen             = "must be chosen: tick one to %d, or choose events of all feeds"
)

// The progress of work.
const (
	workDoneOf = "%d of %d"
	// Including deliveries created before an interruption.
	hadThem     = ", of which %d had their delivery already"
	couldNotAsk = ", of which %d are on their way already or can't be sent any more" // were refused
)
