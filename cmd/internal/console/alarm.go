package console

import (
	"time"

	"carillon/command"
	"carillon/query"
)

// alarm describes what is wrong with a destination.
type alarm struct {
	query.Health

	Left   int       // failures after which it is disabled. 0 means that the next one from Due on disables it.
	Due    time.Time // before which failures don't disable it
	Off    bool
	Missed command.Missed // events, while it was off
}

// alarm returns what is wrong with a destination, or nil.
func (c *Console) alarm(v *visit, d query.Destination, failing query.Failures) (*alarm, error) {
	shown := alarm{Health: d.Health, Off: d.Status != "enabled"}
	if !shown.Off && shown.ConsecutiveFailures == 0 && failing.All() == 0 {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	if shown.Off {
		var err error
		shown.Missed, err = c.Commands.MissedEvents(v.Context(), v.caller(), d.ID)
		return &shown, err
	}
	shown.Left = max(0, c.Policy.After-shown.ConsecutiveFailures)
	if shown.StreakStartedAt != nil {
		shown.Due = shown.StreakStartedAt.Add(c.Policy.MinStreak)
	}
	return &shown, nil
}
