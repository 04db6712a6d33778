package happening

// Standing is how much a telling of a happening counts beside others. The values are stored.
type Standing int

// The standings, the least first.
const (
	// FromPost: a post speaks of it.
	FromPost Standing = iota + 1
	// FromListing: a page or calendar shows it among others.
	FromListing
	// FromOwnPage: the page is the happening's own.
	FromOwnPage
	// FromPlatform: the platform's own record of the event.
	FromPlatform
)
