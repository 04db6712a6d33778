package app

import (
	"syscall"

	"carillon/command/delivery/schedule"
	"carillon/command/delivery/sending"
	"carillon/command/egress"
)

const (
	// filesOfOthers are left to the event store, which keeps half of them open, to Postgres, and an eighth to the
	// connections of the admin API.
	filesOfOthers = 512
	// maxCallers is the number of open connections to the API, whatever the limit of open files is.
	maxCallers = 1 << 16
	// sparePlaces of the admin API are left to /healthz, /readyz and /metrics.
	sparePlaces = 4
)

// connectionsFor returns how many requests may be in flight at one time, and how many connections may be idle, for the
// process's limit of open files. Without files requests of all organizations fail, which counts as failures of their
// destinations, and so does the event store. Requests get the larger part: some of them hang.
func connectionsFor(files uint64) (inFlight, idle int) {
	inFlight, idle = sending.DefaultSettings.InFlight, maxIdle
	room := (files - min(filesOfOthers, files/2)) / 2
	if files == 0 || room >= uint64(inFlight+idle) { //nolint:gosec // neither is negative
		return inFlight, idle
	}
	left := int(room) //nolint:gosec // it is small
	inFlight = min(inFlight, left*3/4)
	return inFlight, left - inFlight
}

// callersFor returns how many connections to the API and to the admin API may be open: what others leave. The admin API
// has an eighth of it as well.
func callersFor(files uint64) (api, admin int) {
	if files == 0 {
		return maxCallers, filesOfOthers / 8
	}
	inFlight, idle := connectionsFor(files)
	others := min(filesOfOthers, files/2)
	rest := files - others - uint64(inFlight+idle) //nolint:gosec // neither is negative
	share := min(rest/8, maxCallers/16)
	return int(min(rest-share, maxCallers)), int(others/8 + share) //nolint:gosec // bounded
}

// outgoing bounds the connections that go out of this process: those of webhooks, whichever certificate they show, and
// those of collectors.
func outgoing(files uint64) *egress.Files {
	inFlight, idle := connectionsFor(files)
	return egress.NewFiles(inFlight + idle)
}

// filesAllowed is how many files this process may have open, connections included; 0: it is not known. Go's runtime has
// raised it as far as it may.
func filesAllowed() uint64 {
	var allowed syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &allowed); err != nil {
		return 0
	}
	return allowed.Cur
}

// RequestsAtOneTime returns how many files this process may have open, how many requests of webhooks may be in flight
// at one time, and how many usually may.
func RequestsAtOneTime() (files uint64, inFlight, usually int) {
	files = filesAllowed()
	inFlight, _ = connectionsFor(files)
	return files, inFlight, sending.DefaultSettings.InFlight
}

// deliverySettings are those that the process has files for.
func (p *process) deliverySettings() schedule.Settings {
	settings := sending.DefaultSettings
	files, inFlight, usually := RequestsAtOneTime()
	if settings.InFlight = inFlight; inFlight < usually {
		p.log.Warn("this process may have few files open, so fewer webhooks are sent at one time: raise its limit (ulimit "+
			"-n, LimitNOFILE)",
			"files", files, "atOneTime", inFlight, "usually", usually)
	}
	return settings
}
