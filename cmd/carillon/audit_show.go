package main

import (
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/eventstore/seal"
	"carillon/projections/audit"
	"carillon/query"
)

type auditShowCommand struct {
	printing
	trusting

	File string   `arg:"" type:"existingfile" placeholder:"FILE" help:"An export with proofs (carillon audit export ID --proof)."`
	At   timeFlag `placeholder:"TIME" help:"Show the state of a destination as of this time: a time, a date or how long ago. Default: that of the tree head."`
}

// Help implements kong.HelpProvider.
func (auditShowCommand) Help() string {
	return `The export is verified before, as by "carillon audit verify FILE", with the same exit codes: of one that
does not prove what it says nothing is shown. Nothing but the file is read: sealed values stay sealed. --json has the
stored events.`
}

// shownEvent is an event of an export as --json has it: with its content decoded.
type shownEvent struct {
	Index    uint64              `json:"index"`
	Stream   string              `json:"stream"`
	Revision eventstore.Revision `json:"revision"`
	ID       uuid.UUID           `json:"id"`
	Type     string              `json:"type"`
	Data     jsontext.Value      `json:"data"`
	Metadata jsontext.Value      `json:"metadata"`
}

// shownExport is an export as --json has it.
type shownExport struct {
	seal.Verified

	Contents []shownEvent `json:"contents"`
}

// Run verifies an export and prints what it contains.
func (c *auditShowCommand) Run(t terminal) error {
	trusted, elsewhere, err := c.read()
	if err != nil {
		return err
	}
	var events []*eventstore.Recorded
	shown := shownExport{Contents: []shownEvent{}}
	shown.Verified, err = readExport(c.File, trusted, elsewhere, func(e *seal.ExportEvent) {
		events = append(events, e.Recorded())
		shown.Contents = append(shown.Contents, shownEvent{
			Index:    e.Index,
			Stream:   e.Stream,
			Revision: e.Revision,
			ID:       e.ID,
			Type:     e.Type,
			Data:     e.Data,
			Metadata: e.Metadata,
		})
	})
	if err != nil {
		return err
	}
	var trail *audit.Trail
	if len(shown.Faults) > 0 {
		shown.Contents = []shownEvent{}
	} else if trail, err = audit.TrailOf(events); err != nil {
		return err
	}
	at := shown.Head.At
	if c.At != "" {
		if at, err = time.Parse(time.RFC3339, c.At.at(t)); err != nil {
			return err
		}
	}
	err = c.print(t.out, shown, func(w io.Writer) {
		if trail != nil {
			drawTrail(w, shown.Asked, trail, events, at)
		}
		reportExport(w, &shown.Verified)
	})
	if err != nil {
		return err
	}
	return proved(&shown.Verified)
}

// drawTrail prints the history of a destination as "carillon audit destination" does, and that of another thing as a
// list.
func drawTrail(w io.Writer, asked uuid.UUID, trail *audit.Trail, events []*eventstore.Recorded, at time.Time) {
	if len(trail.Entries) == 0 {
		recordRows(w, trail.Record)
		row(w)
		return
	}
	state := query.AuditStateAt(trail.Entries, at)
	if state != nil && state.Status != "deleted" {
		state.Subscriptions = subscriptionsAt(events, at)
	}
	slices.SortFunc(trail.Disclosures, func(a, b query.AuditEntry) int { return b.At.Compare(a.At) })
	_, _ = io.WriteString(w, drawAudit(adminapi.Audit{
		Destination:  asked,
		Organization: trail.Entries[0].Owner(),
		At:           at,
		State:        state,
		Entries:      trail.Entries,
		Disclosures:  trail.Disclosures,
	}, zoneOf(w)))
	row(w)
}

// subscriptionsAt folds the events of subscriptions up to a time into their states then, without deleted ones.
func subscriptionsAt(events []*eventstore.Recorded, at time.Time) (all []query.AuditSubscription) {
	states, changes := map[string]subscription.State{}, map[string]*query.AuditSubscription{}
	var streams []string
	for _, recorded := range events {
		event, err := subscription.Events.Decode(recorded)
		if err != nil {
			continue // of another category
		}
		state := subscription.Aggregate.Evolve(states[recorded.Stream], event)
		if state.UpdatedAt.After(at) {
			continue
		}
		if changes[recorded.Stream] == nil {
			streams = append(streams, recorded.Stream)
			changes[recorded.Stream] = &query.AuditSubscription{}
		}
		states[recorded.Stream] = state
		one := changes[recorded.Stream]
		one.Revision = int64(recorded.Revision)
		switch e := event.(type) {
		case subscription.Deactivated:
			one.Reason = wire.Nullable(e.Reason)
		case subscription.Activated:
			one.Reason = nil
		case subscription.Created, subscription.Revised, subscription.Deleted: // say nothing about the reason
		}
	}
	for _, stream := range streams {
		state, one := states[stream], changes[stream]
		if !state.Exists() {
			continue
		}
		one.ID = (&eventstore.Recorded{Stream: stream}).StreamID()
		one.Answered, one.Active = state.Settings.Answered(), state.Status == subscription.StatusActive
		one.CreatedAt, one.UpdatedAt = state.CreatedAt, state.UpdatedAt
		all = append(all, *one)
	}
	return all
}
