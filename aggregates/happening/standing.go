package happening

// Standing is the weight of a sighting among others. The values are stored.
type Standing int

// Standings, the lowest first.
const (
	// FromPost is the standing of a post.
	FromPost Standing = iota + 1
	// FromListing is the standing of a page or calendar with several happenings.
	FromListing
	// FromOwnPage is the standing of the happening's own page.
	FromOwnPage
	// FromPlatform is the standing of the platform's own record.
	FromPlatform
	// FromTranslation is the standing of the happening's page in another language than the source's, which counts as a
	// post does.
	FromTranslation
)

// rank treats an unknown standing, as old events have it, as a listing's.
func (s Standing) rank() Standing {
	switch s {
	case 0:
		return FromListing
	case FromTranslation:
		return FromPost
	default:
		return s
	}
}

// String returns the name of the standing for operators.
func (s Standing) String() string {
	switch s {
	case FromPost:
		return "post"
	case FromTranslation:
		return "translation"
	case FromOwnPage:
		return "ownPage"
	case FromPlatform:
		return "platform"
	default:
		return "listing"
	}
}
