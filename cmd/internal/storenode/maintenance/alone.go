package maintenance

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"carillon/cmd/internal/config"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
)

// OpenAlone runs the node of a directory for this process alone.
func OpenAlone(dir string, log *slog.Logger) (*esdb.Store, func(), error) {
	if err := config.CheckWriter(dir); err != nil {
		return nil, nil, err
	}
	n, err := node.Open(node.Config{Dir: dir, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	sockets, err := os.MkdirTemp("", "carillon-")
	if err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	socket, served := filepath.Join(sockets, "eventstore.sock"), make(chan error, 1)
	go func() { served <- n.ListenUnix(socket) }()
	closeNode := func() {
		if err := errors.Join(n.Close(), <-served, os.RemoveAll(sockets)); err != nil {
			log.Error("the source did not close cleanly", "error", err)
		}
	}
	store, err := esdb.OpenUnix(socket, log)
	if err != nil {
		closeNode()
		return nil, nil, err
	}
	return store, func() { _ = store.Close(); closeNode() }, nil
}

// ReportText returns a report in a line.
func ReportText(r node.Report) string {
	text := fmt.Sprintf("%d events in %d streams, %s: ", r.Events, r.Streams, BytesText(r.Bytes))
	if r.OK() {
		return text + "all is well"
	}
	text += fmt.Sprintf("%d faults", r.Faults)
	for _, problem := range r.Problems {
		text += "; " + problem
	}
	return text
}

// BytesText returns a number of bytes as people write it.
func BytesText(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < len("KMGTPE")-1 {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[prefix])
}
