// Package demo shows the main job on real input, end to end, step by step: a page with schema.org events becomes items
// of a feed, and published events become signed webhooks at a TLS receiver. Everything runs on loopback and uses the
// public APIs.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/dev"
	"carillon/eventstore/instant"
)

const (
	patience   = 15 * time.Second
	pollPause  = 50 * time.Millisecond
	published  = 3
	indentItem = "       "
)

// Options names the server of the demo.
type Options struct {
	API          string // base URL
	APICert      string // file of its certificate, if it speaks HTTPS
	Admin        string // base URL
	Key          string
	AdminToken   string
	Organization string         // whose key it is
	Stays        bool           // the server goes on after the demo
	Authority    *dev.Authority // of the server's data directory, so that it trusts the receiver
	Out          io.Writer
	Zone         *time.Location // of the times that are shown
}

// demo is the state of one run.
type demo struct {
	Options
	api, admin *apiclient.Client
	receiver   *receiver
	hook       string // id of the destination
	delivery   string // id of the last one
	step       int
	started    time.Time
}

// Run shows all steps. It fails at the first result that is not the expected one.
func Run(ctx context.Context, options Options) error {
	api, err := apiclient.New(options.API, options.Key, options.APICert)
	if err != nil {
		return err
	}
	admin, err := apiclient.New(options.Admin, options.AdminToken, "")
	if err != nil {
		return err
	}
	d := &demo{
		Options: options,
		started: time.Now(),
		api:     api,
		admin:   admin,
	}
	page, closePage, err := servePage(ctx)
	if err != nil {
		return err
	}
	defer closePage()
	if d.receiver, err = startReceiver(ctx, options.Authority); err != nil {
		return err
	}
	defer d.receiver.close()

	feed, err := d.collect(ctx, page)
	if err != nil {
		return err
	}
	if err := d.subscribe(ctx); err != nil {
		return err
	}
	defer d.retireDestination(context.WithoutCancel(ctx)) // its receiver ends with the demo
	if err := d.publish(ctx, feed); err != nil {
		return err
	}
	d.say("Done in %s. The same at leisure: %s", time.Since(d.started).Round(10*time.Millisecond), d.leisure(ctx))
	return nil
}

func (d *demo) say(format string, args ...any) {
	d.step++
	_, _ = fmt.Fprintf(d.Out, "\n  %d  %s\n", d.step, fmt.Sprintf(format, args...))
}

func (d *demo) detail(format string, args ...any) {
	_, _ = fmt.Fprintf(d.Out, indentItem+format+"\n", args...)
}

// collect makes a feed of a page and shows the items that come in.
func (d *demo) collect(ctx context.Context, page string) (feed string, err error) {
	var created struct {
		ID string `json:"id"`
	}
	err = d.api.Call(ctx, http.MethodPost, "/feeds/events", map[string]any{
		"name":        "City concerts",
		"description": "Concerts in town",
	}, &created)
	if err != nil {
		return "", fmt.Errorf("create the feed: %w", err)
	}
	feed = created.ID
	d.say("A feed for events: %s", feed)
	var source struct {
		ID string `json:"id"`
	}
	if err := d.admin.Call(ctx, http.MethodPost, "/admin/sources", map[string]any{"type": "site", "url": page},
		&source); err != nil {
		return "", fmt.Errorf("register the source: %w", err)
	}
	err = d.api.Call(ctx, http.MethodPost, "/feeds/events/"+feed+"/sources", map[string]any{
		"sourceType": "site",
		"sourceId":   source.ID,
	}, nil)
	if err != nil {
		return "", fmt.Errorf("attach the source: %w", err)
	}
	d.say("A source attached to it: %s, a page with schema.org events", page)
	var list itemList
	err = poll(ctx, func() (bool, error) {
		err := d.api.Call(ctx, http.MethodGet, "/feeds/events/"+feed+"/items", nil, &list)
		return len(list.Items) == pageEvents, err
	})
	if err != nil {
		return "", fmt.Errorf("wait for the page's %d events, %d are there: %w", pageEvents, len(list.Items), err)
	}
	d.say("Collected %d items:", list.Total)
	for _, item := range list.Items {
		d.detail("%s  %s", instant.Shown(item.Occurrence.Next.Start, d.Zone), item.Title)
	}
	return feed, nil
}

type itemList struct {
	Total int `json:"total"`
	Items []struct {
		Title      string `json:"title"`
		Occurrence struct {
			Next struct {
				Start time.Time `json:"startDateTime"`
			} `json:"nextOccurrence"`
		} `json:"occurrence"`
	} `json:"items"`
}

// subscribe makes a destination of the receiver.
func (d *demo) subscribe(ctx context.Context) error {
	var destination struct {
		ID         string `json:"id"`
		Validation struct {
			Reachable bool  `json:"reachable"`
			Took      int64 `json:"responseTimeMs"`
		} `json:"validation"`
		Secrets []struct {
			Secret string `json:"secret"`
		} `json:"secrets"`
	}
	body := map[string]any{"name": "Demo receiver", "config": map[string]any{"url": d.receiver.url}}
	if err := d.api.Call(ctx, http.MethodPost, "/events/destinations", body, &destination); err != nil {
		return fmt.Errorf("create the destination: %w", err)
	}
	d.hook = destination.ID
	if !destination.Validation.Reachable || len(destination.Secrets) != 1 {
		return errors.New("the destination is not reachable or has no secret")
	}
	if err := d.receiver.trust(destination.Secrets[0].Secret); err != nil {
		return err
	}
	d.say("A destination: %s, reachable in %d ms", d.receiver.url, destination.Validation.Took)
	subscription := map[string]any{"eventTypes": []string{"news.*", "event.*"}, "scopeKind": "all"}
	if err := d.api.Call(ctx, http.MethodPost, "/events/destinations/"+url.PathEscape(destination.ID)+"/subscriptions",
		subscription, nil); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	d.detail("subscribed to news.* and event.*")
	return nil
}

// retireDestination disables the demo's destination if the server keeps running, so that its deliveries can be looked
// at.
func (d *demo) retireDestination(ctx context.Context) {
	method, body := http.MethodDelete, any(nil)
	if d.Stays {
		method, body = http.MethodPatch, map[string]any{"status": "disabled"}
	}
	if err := d.api.Call(ctx, method, "/events/destinations/"+url.PathEscape(d.hook), body, nil); err != nil {
		d.detail("the destination %s could not be put away: %v", d.hook, err)
	}
}

// leisure is the address of the demo's last delivery, if the server keeps running: its page, which a link signs in at
// first.
func (d *demo) leisure(ctx context.Context) string {
	if !d.Stays {
		return "make run, or carillon serve --dev"
	}
	page := d.API + "/console/deliveries/" + d.delivery
	var link struct {
		URL string `json:"url"`
	}
	if err := d.admin.Call(ctx, http.MethodPost, "/admin/organizations/"+d.Organization+"/console-link",
		map[string]string{"as": "developer"}, &link); err != nil {
		return page
	}
	return link.URL + "&next=" + url.QueryEscape("/console/deliveries/"+d.delivery) + "\n" + indentItem +
		"the link signs in once, within 15 minutes, and leads to the delivery: " + page
}

// publish publishes events of the feed and shows each delivery as it arrives and verifies.
func (d *demo) publish(ctx context.Context, feed string) error {
	sent := map[string]time.Time{}
	d.say("Publishing %d events; each arrives as a signed POST:", published)
	for i := range published {
		id := uuid.NewString()
		event := map[string]any{
			"id": id, "type": "event.item.added", "source": "/feeds/events/" + feed, "subject": fmt.Sprintf("demo/%d", i+1),
			"feedType": "event", "feedId": feed,
			"data": map[string]any{"id": uuid.NewString(), "eventId": uuid.NewString(), "title": fmt.Sprintf("Encore %d", i+1)},
		}
		sent[id] = time.Now()
		if err := d.admin.Call(ctx, http.MethodPost, "/admin/events", event, nil); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	var last string
	for range published {
		arrived, err := d.receiver.next(ctx)
		if err != nil {
			return err
		}
		last = arrived.deliveryID
		d.detail("✓ %s  %s  signature verified, %s after publishing", arrived.kind, arrived.subject,
			arrived.at.Sub(sent[arrived.eventID]).Round(100*time.Microsecond))
	}
	d.delivery = last
	var delivery struct {
		Status   string `json:"status"`
		Attempts []struct {
			Status int `json:"responseStatus"`
		} `json:"attempts"`
	}
	err := poll(ctx, func() (bool, error) {
		err := d.api.Call(ctx, http.MethodGet, "/events/deliveries/"+last, nil, &delivery)
		var failure *apiclient.Error
		if errors.As(err, &failure) && failure.Status == http.StatusNotFound {
			return false, nil
		}
		return delivery.Status == "succeeded", err
	})
	if err != nil {
		return fmt.Errorf("wait for the record of delivery %s: %w", last, err)
	}
	d.say("On record: delivery %s %s, attempt 1 answered %d", last, delivery.Status, delivery.Attempts[0].Status)
	return nil
}

// poll asks until it is true, for a while.
func poll(ctx context.Context, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		done, err := ask()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s", patience)
		case <-time.After(pollPause):
		}
	}
}
