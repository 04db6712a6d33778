package custody

import "context"

// FailWrites lets a function fail the writes of files.
func (c *Custody) FailWrites(fail func() error) {
	for _, p := range []place{c.home, c.copied} {
		if f, ok := p.(*files); ok {
			f.fail = fail
		}
	}
	if c.epochs != nil {
		c.epochs.fail = fail
	}
}

// Differ runs the look of Watch.
func (c *Custody) Differ(ctx context.Context) (bool, error) { return c.differ(ctx) }

// RenewIfDue renews as Watch does.
func (c *Custody) RenewIfDue(ctx context.Context) error { return c.renewIfDue(ctx) }
