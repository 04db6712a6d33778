package destination

import (
	"time"

	"github.com/google/uuid"
)

type (
	// createdV1 precedes sealed addresses: it has the whole URL.
	createdV1 struct {
		Organization uuid.UUID `json:"organization"`
		settingsV1
		At time.Time `json:"at"`
	}
	// revisedV1 precedes sealed addresses: it has the whole URL.
	revisedV1 struct {
		settingsV1
		At time.Time `json:"at"`
	}
	settingsV1 struct {
		ExternalID            string `json:"externalId,omitempty"`
		Name                  string `json:"name"`
		URL                   string `json:"url"`
		Headers               Sealed `json:"headers"`
		DebounceWindowSeconds int    `json:"debounceWindowSeconds"`
	}
)

func (e createdV1) upcast() Event {
	return Created{Organization: e.Organization, Settings: e.settings(), At: e.At}
}

func (e revisedV1) upcast() Event { return Revised{Settings: e.settings(), At: e.At} }

func (s settingsV1) settings() Settings {
	return Settings{
		ExternalID: s.ExternalID,
		Name:       s.Name,
		URL:        s.URL,
		Headers:    s.Headers,
		Plain:      Plain{DebounceWindowSeconds: s.DebounceWindowSeconds},
	}
}
