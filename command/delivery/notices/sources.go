package notices

import (
	"context"

	"carillon/aggregates/source"
	"carillon/command/catalog"
	"carillon/eventstore"
)

// sourcesPath is the path of sources in the admin API.
const sourcesPath = "/admin/sources/"

// AfterSource takes in the end of a walk through a source: operators hear of one that needs them.
func (n *Notices) AfterSource(ctx context.Context, cause *eventstore.Recorded) error {
	event, err := source.Events.Decode(cause)
	if err != nil {
		return err
	}
	data := noticeData{Source: cause.StreamID()}
	switch e := event.(type) {
	case source.CredentialsMissing:
		data.Reason, data.Message = "needs_credentials", e.Message
	case source.JavaScriptNeeded:
		data.Reason, data.Message = "needs_javascript", e.Message
	case source.CollectionFailed:
		if source.Lasting(e.Reason) {
			data.Reason, data.Message = e.Reason, e.Message
		}
	case source.Registered, source.CollectionRequested, source.CollectionStarted, source.CollectionCompleted,
		source.Paused, source.Resumed, source.Revised: // operators' doing, or no trouble
	}
	if data.Reason == "" {
		return nil
	}
	return n.send(ctx, cause, notice{kind: catalog.SourceNeedsAttention, data: data})
}
