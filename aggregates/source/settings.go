package source

// Settings are what operators choose about the reading of a source's pages. The zero value is the default.
type Settings struct {
	// IgnoreLists leaves out lists without any markup, whose events are a guess.
	IgnoreLists bool `json:"ignoreLists,omitempty"`
	// Selectors name the events of its pages, which are read in place of any others then. Optional.
	Selectors Selectors `json:"selectors,omitzero"`
}

// Selectors are CSS selectors: of the elements that are events, and of the fields within each.
type Selectors struct {
	Event string `json:"event,omitempty"`
	Title string `json:"title,omitempty"` // Optional. Default: a heading, or a link
	Start string `json:"start,omitempty"` // Optional. Default: the only date
	End   string `json:"end,omitempty"`   // Optional
	Place string `json:"place,omitempty"` // Optional
	Link  string `json:"link,omitempty"`  // Optional. Default: the first link
}

// Named returns the selectors by their names, in the order of declaration.
func (s *Selectors) Named() []NamedSelector {
	return []NamedSelector{
		{Name: "event", Text: &s.Event}, {Name: "title", Text: &s.Title}, {Name: "start", Text: &s.Start},
		{Name: "end", Text: &s.End}, {Name: "place", Text: &s.Place}, {Name: "link", Text: &s.Link},
	}
}

// NamedSelector is a selector with its name.
type NamedSelector struct {
	Name string
	Text *string
}
