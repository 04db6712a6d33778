package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

type projectionsVerifyCommand struct {
	changing
	Name   string  `arg:"" help:"Name, as in the status."`
	Sample float64 `help:"Compare this percentage of the rows, chosen by chance." placeholder:"PERCENT" default:"100"`
}

// Run has a read model compared with its events, and waits for the result. It fails if they differ.
func (c *projectionsVerifyCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	before, err := client.Projections(ctx)
	if err != nil {
		return err
	}
	if err := client.Verify(ctx, c.Name, c.Sample); err != nil {
		return err
	}
	done, err := followWork(ctx, client, t, c.Name, "verification",
		func(p adminapi.Projection) *adminapi.Rebuild { return p.Verifying })
	if err != nil {
		return err
	}
	if done.Verified == nil {
		return errors.New("the result is not known: another server was asked for it, or the read model was rebuilt meanwhile")
	}
	i := slices.IndexFunc(before, func(p adminapi.Projection) bool { return p.Name == c.Name })
	stands := i >= 0 && before[i].Verified != nil && before[i].Verified.At.Equal(done.Verified.At)
	if err := c.print(t.out, done.Verified, func(w io.Writer) {
		if stands {
			row(w, "No row of the sample differs. What an earlier verification has found stands:")
		}
		for _, line := range verificationLines(w, c.Name, *done.Verified) {
			row(w, line)
		}
	}); err != nil {
		return err
	}
	if done.Verified.Differing > 0 {
		return fmt.Errorf("%s differs from the log: find out who changed it; carillon status names the repair", c.Name)
	}
	return nil
}

// verificationLines are lines about the result of a verification.
func verificationLines(w io.Writer, name string, v adminapi.Verification) []string {
	what := counted(int(v.Rows), "row")
	if v.Sample < 100 { //nolint:mnd // percent
		what = fmt.Sprintf("a sample of %s (%g %%)", what, v.Sample)
	}
	if v.Differing == 0 {
		return []string{fmt.Sprintf("%s agrees with the log: %s compared on %s", name, what, moment(w, &v.At))}
	}
	lines := []string{fmt.Sprintf("%s DIFFERS from the log in %s: %s compared on %s", name,
		counted(int(v.Differing), "row"), what, moment(w, &v.At))}
	for _, d := range v.Differences {
		lines = append(lines, "  "+d.String())
	}
	if more := int(v.Differing) - len(v.Differences); more > 0 {
		lines = append(lines, "  and "+counted(more, "other row"))
	}
	return lines
}
