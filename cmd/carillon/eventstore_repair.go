package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"carillon/cmd/internal/storenode/maintenance"
	"carillon/eventstore/node"
)

type eventstoreRepairCommand struct {
	onNode

	AcceptLoss bool `help:"Continue without the listed events. By default nothing is changed."`
}

// Help implements kong.HelpProvider.
func (eventstoreRepairCommand) Help() string {
	return `For a node that refuses to start because acknowledged events are missing at the end of its log. Lists
the lost revisions. Prefer a backup that has them. With --accept-loss the store ends before the damage, and
the damaged logs are kept in "damaged" in its directory.`
}

// repaired and lostRevisions are the answer in JSON.
type (
	repaired struct {
		Damage       string          `json:"damage,omitempty"`
		Last         uint64          `json:"last"`
		Acknowledged uint64          `json:"acknowledged,omitempty"`
		Lost         []lostRevisions `json:"lost"`
		Unnamed      bool            `json:"unnamed"`
		Kept         string          `json:"kept,omitempty"`
		Repaired     bool            `json:"repaired"`
	}
	lostRevisions struct {
		Stream string `json:"stream"`
		First  uint64 `json:"first"`
		Last   uint64 `json:"last"`
		Whole  bool   `json:"whole"`
	}
)

// Run lists the lost events, and repairs if their loss is accepted. It fails if damage is left.
func (c *eventstoreRepairCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	found, err := maintenance.Repair(ctx, c.path(), c.AcceptLoss, cli.Logger(os.Stderr))
	if err != nil {
		return err
	}
	answer := repaired{
		Damage:       found.Damage,
		Last:         found.Last,
		Acknowledged: found.Acknowledged,
		Lost:         []lostRevisions{},
		Unnamed:      found.Unnamed,
		Kept:         found.Kept,
		Repaired:     c.AcceptLoss && found.Damage != "",
	}
	for _, lost := range found.Lost {
		answer.Lost = append(answer.Lost, lostRevisions(lost))
	}
	if err := c.show(t, answer, repairText(found, c.AcceptLoss)); err != nil {
		return err
	}
	if found.Damage != "" && !c.AcceptLoss {
		return errors.New("nothing was changed: restore a backup that has these events, or use --accept-loss to " +
			"continue without them")
	}
	return nil
}

func repairText(found node.Repaired, accepted bool) string {
	if found.Damage == "" {
		return "the event store opens: nothing to repair"
	}
	var b strings.Builder
	what, _, _ := strings.Cut(found.Damage, "; ")
	b.WriteString(what + "\n")
	for _, lost := range found.Lost {
		state := "can't be read"
		if lost.Whole {
			state = "whole, behind the damage"
		}
		fmt.Fprintf(&b, "lost: %s, revisions %d to %d (%s)\n", lost.Stream, lost.First, lost.Last, state)
	}
	if found.Unnamed {
		b.WriteString("lost: others, whose streams are not known, as nothing is left of them\n")
	}
	switch {
	case accepted && found.Kept != "":
		b.WriteString("the event store ends before them now; the damaged logs are in " + found.Kept)
	case accepted:
		b.WriteString("the event store ends before them now")
	default:
		b.WriteString("nothing was changed")
	}
	return b.String()
}
