package listen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/httpapi"
)

const destinations = "/events/destinations"

// remove deletes a destination with its subscriptions, if it is there.
func (l *listener) remove(ctx context.Context, externalID string) error {
	err := l.API.Call(ctx, http.MethodDelete, destinations+"/"+externalID, nil, nil)
	if isNotFound(err) {
		return nil
	}
	return err
}

func isNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// hasStatus reports whether the server refused a request with a status.
func hasStatus(err error, status int) bool {
	failure, ok := errors.AsType[*apiclient.Error](err)
	return ok && failure.Status == status
}

// watchPause is the time between two looks at the destination. A stream shows changes by itself.
const watchPause = 2 * time.Second

// watch looks at the destination until the context ends. A server that does not answer may come back.
func (l *listener) watch(ctx context.Context, externalID string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchPause):
		}
		var now httpapi.ListenState
		err := l.API.Call(ctx, http.MethodGet, destinations+"/"+externalID, nil, &now)
		switch {
		case isNotFound(err):
			now.Status = httpapi.ListenDeleted
		case hasStatus(err, http.StatusUnauthorized):
			l.end(fmt.Errorf("the destination %s can't be looked at any more, so that nobody would know if webhooks "+
				"stopped: %w", externalID, err))
			return
		}
		l.observe(ctx, externalID, now)
	}
}

// observe handles a state of the destination: one that was disabled after failures is enabled again, as it is this
// program's own; what others did ends the listener.
func (l *listener) observe(ctx context.Context, externalID string, now httpapi.ListenState) {
	switch now.Status {
	case httpapi.ListenDeleted:
		l.end(fmt.Errorf("the destination %s was deleted by somebody else: nothing comes here any more", externalID))
	case httpapi.ListenMoved:
		l.end(fmt.Errorf("the config.url of the destination %s was changed: nothing comes here any more", externalID))
	case "disabled":
		l.end(fmt.Errorf("the destination %s was disabled by somebody else: nothing comes here any more; it is removed, "+
			"start carillon listen again to get an enabled one", externalID))
	case "auto_disabled":
		reason := "too many failures"
		if now.StatusReason != nil {
			reason = *now.StatusReason
		}
		l.note("The server has disabled the destination %s: %s.", externalID, reason)
		err := l.API.Call(ctx, http.MethodPatch, destinations+"/"+externalID, map[string]string{"status": "enabled"}, nil)
		if err != nil {
			l.end(fmt.Errorf("enable the destination %s again: %w", externalID, err))
			return
		}
		l.note("It is enabled again.")
	}
}

type pin struct {
	FeedType string `json:"feedType"`
	FeedID   string `json:"feedId"`
}

// subscribe makes the destination and its subscription.
func (l *listener) subscribe(ctx context.Context, externalID, url string) error {
	pins, err := l.pins(ctx)
	if err != nil {
		return err
	}
	destination := map[string]any{
		"externalId": externalID,
		"name":       "carillon listen",
		"config":     map[string]string{"url": url},
		"secret":     l.Secret,
	}
	var made struct {
		Validation struct {
			Reachable bool   `json:"reachable"`
			Error     string `json:"error"`
		} `json:"validation"`
	}
	if err := l.API.Call(ctx, http.MethodPost, destinations, destination, &made); err != nil {
		return fmt.Errorf("create the destination: %w", err)
	}
	if l.Authority != nil && !made.Validation.Reachable {
		return fmt.Errorf("the server at %s can't reach this program at %s: %s", l.API.Base(), url, made.Validation.Error)
	}
	subscription := map[string]any{"eventTypes": l.Types, "scopeKind": "all"}
	if len(pins) > 0 {
		subscription["scopeKind"], subscription["feeds"] = "feeds", pins
	}
	err = l.API.Call(ctx, http.MethodPost, destinations+"/"+externalID+"/subscriptions", subscription, nil)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", strings.Join(l.Types, ", "), err)
	}
	return nil
}

// pins finds the kind of each feed.
func (l *listener) pins(ctx context.Context) ([]pin, error) {
	pins := make([]pin, 0, len(l.Feeds))
	for _, id := range l.Feeds {
		err := l.API.Call(ctx, http.MethodGet, "/feeds/events/"+id, nil, nil)
		switch {
		case err == nil:
			pins = append(pins, pin{FeedType: "event", FeedID: id})
		case isNotFound(err): // the subscription says so if there is no feed of news either
			pins = append(pins, pin{FeedType: "news", FeedID: id})
		default:
			return nil, fmt.Errorf("look up the feed %s: %w", id, err)
		}
	}
	return pins, nil
}
