package command

import (
	"context"

	"carillon/command/webhook"
)

// ValidateConfig checks a destination's configuration without saving it. Only a broken rule is an error; an endpoint
// that can't be reached is reported.
func (c *Commands) ValidateConfig(ctx context.Context, url string, headers map[string]string) (webhook.Reachability, error) {
	if err := c.CheckConfig(ctx, url, headers); err != nil {
		return webhook.Reachability{}, err
	}
	return c.Prober.Probe(ctx, url), nil
}
