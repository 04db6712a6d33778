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

// rank counts a telling of unknown standing, as events of earlier times have it, as a listing's.
func (s Standing) rank() Standing {
	if s == 0 {
		return FromListing
	}
	return s
}

// String names the standing for operators.
func (s Standing) String() string {
	switch s.rank() {
	case FromPost:
		return "post"
	case FromOwnPage:
		return "ownPage"
	case FromPlatform:
		return "platform"
	default:
		return "listing"
	}
}
