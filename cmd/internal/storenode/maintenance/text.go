package maintenance

import (
	"fmt"

	"carillon/eventstore/node"
)

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
