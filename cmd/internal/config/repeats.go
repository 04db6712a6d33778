package config

import (
	"log/slog"
	"strings"
	"time"

	"carillon/command/sampling"
)

// oneWarning passes one warning a minute for each message and cause: in an outage every consumer, worker and timer
// warns of the same thing, thousands of times a minute. Warnings without an error, and all other levels, pass.
var oneWarning = sampling.Rule{
	Lines: 1,
	Per:   time.Minute,
	Count: "repeated",
	Kind: func(record slog.Record) string {
		err := errorOf(record)
		if record.Level != slog.LevelWarn || err == nil {
			return ""
		}
		return record.Message + "\n" + cause(err)
	},
}

func errorOf(record slog.Record) (found error) {
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "error" {
			found, _ = attr.Value.Any().(error)
		}
		return found == nil
	})
	return found
}

// cause is the text of the innermost error, without the numbers in it: outside it are the names of failed operations,
// which differ from one warning to the next.
func cause(err error) string {
	for {
		switch outer := err.(type) { //nolint:errorlint // it goes through the chain itself
		case interface{ Unwrap() error }:
			if inner := outer.Unwrap(); inner != nil {
				err = inner
				continue
			}
		case interface{ Unwrap() []error }:
			if inner := outer.Unwrap(); len(inner) > 0 {
				err = inner[len(inner)-1]
				continue
			}
		}
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, err.Error())
	}
}
