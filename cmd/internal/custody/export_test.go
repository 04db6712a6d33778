package custody

import "context"

// FailWrites lets a function fail the writes to the files of the key store.
func (c *Custody) FailWrites(fail func() error) {
	if slots, ok := c.second.(*Slots); ok {
		slots.file.fail = fail
	}
	if c.epochs != nil {
		for _, f := range c.epochs.files {
			f.fail = fail
		}
	}
}

// Differ is the look that Watch takes.
func (c *Custody) Differ(ctx context.Context) (bool, error) { return c.differ(ctx) }
