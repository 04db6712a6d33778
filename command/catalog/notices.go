package catalog

import "fmt"

// Types of notices, which only the destination for notices gets. They are not in the catalog.
const (
	DeliveryExhausted       = "delivery.exhausted"
	DestinationFailing      = "destination.failing"
	DestinationAutoDisabled = "destination.auto_disabled"
	DestinationRecovered    = "destination.recovered"
	SecretExpiring          = "secret.expiring"
	SubscriptionDeactivated = "subscription.deactivated"
	SourceNeedsAttention    = "source.needs_attention"
)

// Notice is a type of notices.
type Notice struct {
	Type      string
	When      string   // it is sent
	Data      []string // members of its data, besides those of all
	Operators bool     // only operators get it, and no organization
}

// Notices declares all notices. The documents, the console and IsNotice follow it.
var Notices = []Notice{
	{
		Type: DeliveryExhausted,
		When: "the last attempt of a delivery failed",
		Data: []string{"deliveryId", "event", "lastAnswer"},
	},
	{
		Type: DestinationFailing,
		When: "half as many attempts failed in a row as disable a destination; once until the next success",
		Data: []string{"deliveryId", "event", "lastAnswer", "consecutiveFailures"},
	},
	{
		Type: DestinationAutoDisabled,
		When: "failures, or an answer 410, disabled a destination",
		Data: []string{"deliveryId", "event", "lastAnswer"},
	},
	{
		Type: DestinationRecovered,
		When: "it answered 2xx for the first time since it was disabled automatically",
		Data: []string{"deliveryId", "event", "lastAnswer"},
	},
	{
		Type: SecretExpiring,
		When: "a secret was rotated: the earlier ones end in 24 hours",
		Data: []string{"secretIds", "expiresAt"},
	},
	{
		Type: SubscriptionDeactivated,
		When: "a feed that a subscription needs was deleted or is no longer shared with you",
		Data: []string{"subscriptionId"},
	},
	{
		Type:      SourceNeedsAttention,
		When:      "a walk through a source failed in a way that does not pass by itself",
		Data:      []string{"sourceId", "reason"},
		Operators: true,
	},
}

// IsNotice reports whether events of a type are notices.
func IsNotice(name string) bool {
	for _, declared := range Notices {
		if declared.Type == name {
			return true
		}
	}
	return false
}

// NoticeTypes returns the notices that organizations get, with the JSON Schema of their data.
func NoticeTypes() ([]Type, error) {
	schema, err := schemas.ReadFile("schemas/notice.json")
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	var types []Type
	for _, n := range Notices {
		if !n.Operators {
			types = append(types, Type{Name: n.Type, Description: "Notice: " + n.When + ".", Schema: schema})
		}
	}
	return types, nil
}
