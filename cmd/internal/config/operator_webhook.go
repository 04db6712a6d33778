package config

import "carillon/command/webhook"

func (c *Config) checkOperatorWebhook() error {
	url, secret := c.OperatorWebhook.Reveal(), c.OperatorWebhookSecret.Reveal()
	switch {
	case url == "" && secret == "":
		return nil
	case url == "":
		return wrong("CARILLON_OPERATOR_WEBHOOK", "is missing: CARILLON_OPERATOR_WEBHOOK_SECRET is of no use without it")
	case !hasScheme(url, "https", "http"):
		return wrong("CARILLON_OPERATOR_WEBHOOK", "must look like https://host/path")
	}
	if _, err := webhook.ParseSecret(secret); err != nil {
		return wrong("CARILLON_OPERATOR_WEBHOOK_SECRET", "must be whsec_ and 24 to 64 bytes in base64: make it with "+
			"\"echo whsec_$(openssl rand -base64 32)\"")
	}
	return nil
}
