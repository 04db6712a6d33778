package adapters

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery"
)

// ReceiverTurns is delivery.Turns: destinations take turns as the hosts of sources do.
type ReceiverTurns struct{ Hosts Hosts }

var _ delivery.Turns = ReceiverTurns{}

// Take implements delivery.Turns.
func (r ReceiverTurns) Take(
	ctx context.Context, destination uuid.UUID, interval time.Duration,
) (time.Duration, error) {
	wait, _, err := r.Hosts.Take(ctx, turnsOf(destination), interval)
	return wait, err
}

// turnsOf returns the name by which a destination takes turns. A slash is in no host's name.
func turnsOf(destination uuid.UUID) string { return "destination/" + destination.String() }
