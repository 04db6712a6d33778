package command

import (
	"context"

	"carillon/command/webhook"
)

// ValidateConfig is the input of a check.
type ValidateConfig struct {
	URL     string
	Headers map[string]string
}

// ValidateConfig checks a destination's configuration without saving it. Only a broken rule is an error; an endpoint
// that can't be reached is reported.
func (c *Commands) ValidateConfig(ctx context.Context, by Caller, in ValidateConfig) (webhook.Reachability, error) {
	if err := c.checkConfig(ctx, in.URL, in.Headers); err != nil {
		return webhook.Reachability{}, err
	}
	return c.Prober.Probe(ctx, by.Organization, in.URL), nil
}
