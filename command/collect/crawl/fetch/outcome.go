package fetch

import (
	"context"
	"errors"
	"net/http"

	"carillon/command/collect"
)

// Outcomes of requests. They are all, so that they may be labels of a metric.
const (
	outcomeOK          = "ok"
	outcomeNotModified = "not_modified"
	outcomeRedirect    = "redirect"
	outcomeClientError = "client_error"
	outcomeLimited     = "rate_limited"
	outcomeServerError = "server_error"
	outcomeTimeout     = "timeout"
	outcomeBlocked     = "blocked_address"
	outcomeUnread      = "unread" // the answer is too large, or unusable
	outcomeConnection  = "connection"
	outcomeStopped     = "stopped" // by the caller
)

// Outcomes returns all outcomes that Options.Answered gets.
func Outcomes() []string {
	return []string{
		outcomeOK, outcomeNotModified, outcomeRedirect, outcomeClientError, outcomeLimited, outcomeServerError,
		outcomeTimeout, outcomeBlocked, outcomeUnread, outcomeConnection, outcomeStopped,
	}
}

// OutcomeOf returns the outcome of a request from its status or its error, which may be one of collect's.
func OutcomeOf(status int, err error) string {
	var answered *collect.StatusError
	switch {
	case errors.As(err, &answered):
		return ofStatus(answered.Code)
	case err == nil:
		return ofStatus(status)
	case errors.Is(err, collect.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return outcomeTimeout
	case errors.Is(err, collect.ErrBlockedAddress):
		return outcomeBlocked
	case errors.Is(err, collect.ErrConnection):
		return outcomeConnection
	case errors.Is(err, context.Canceled):
		return outcomeStopped
	}
	return outcomeUnread
}

func ofStatus(code int) string {
	switch {
	case code == http.StatusNotModified:
		return outcomeNotModified
	case code == http.StatusTooManyRequests:
		return outcomeLimited
	case code >= 500:
		return outcomeServerError
	case code >= 400:
		return outcomeClientError
	case code >= 300:
		return outcomeRedirect
	}
	return outcomeOK
}
