package config

import (
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"carillon/command/sampling"
)

// Logging is how a process logs.
type Logging struct {
	LogLevel  string `env:"CARILLON_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" placeholder:"LEVEL" help:"debug, info, warn or error."`
	LogFormat string `env:"CARILLON_LOG_FORMAT" default:"auto" enum:"auto,text,json" placeholder:"FORMAT" help:"text, json, or auto: text on a terminal, json otherwise."`
}

// Logger logs to a file as configured.
func (l Logging) Logger(to *os.File) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l.LogLevel)) // one of the four, or info
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if l.LogFormat == "json" || l.LogFormat == "auto" && !IsTerminal(to) {
		return slog.New(sampling.New(slog.NewJSONHandler(to, options), oneWarning))
	}
	return slog.New(sampling.New(slog.NewTextHandler(to, options), oneWarning))
}

// ProcessLogger is Logger, for all of a process: libraries' output by package log has the same form, at debug level,
// because it may repeat an endpoint's data. (net/http prints bytes after an answer.)
func (l Logging) ProcessLogger(to *os.File) *slog.Logger {
	logger := l.Logger(to)
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logger.Handler(), slog.LevelDebug).Writer())
	return logger
}

// readable writes a time that something took as 1.5s, in JSON too, if it would be a bare number of nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}

// DropEmpty forgets CARILLON_* variables that are set to nothing, as compose files leave them: they mean the default.
func DropEmpty(environ []string, unset func(string) error) error {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "CARILLON_") && value == "" {
			if err := unset(name); err != nil {
				return err
			}
		}
	}
	return nil
}

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
