package esdb

import (
	"context"
	"log/slog"
	"net"
)

// OpenDialed is Open for connections that a function makes.
func OpenDialed(
	url string, dial func(ctx context.Context, address string) (net.Conn, error), log *slog.Logger,
) (*Store, error) {
	return open(url, func(s *settings) { s.dial = dial }, log)
}
