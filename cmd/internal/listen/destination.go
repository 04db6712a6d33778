package listen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"carillon/cmd/internal/apiclient"
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

func isNotFound(err error) bool {
	failure, ok := errors.AsType[*apiclient.Error](err)
	return ok && failure.Status == http.StatusNotFound
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
