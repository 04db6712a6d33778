package app

import (
	"testing"

	"carillon/cmd/internal/config"
	"carillon/command/egress"
)

func TestConnectionsLeaveFilesToOthers(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64][2]int{
		0: {2048, maxIdle}, 256: {48, 16}, 1024: {192, 64}, 4096: {1344, 448}, 12_800: {2048, maxIdle}, 20_000: {2048,
			maxIdle}, 1<<64 - 1: {2048, maxIdle},
	} {
		inFlight, idle := connectionsFor(files)
		if inFlight != want[0] || idle != want[1] {
			t.Errorf("%d files: %d requests and %d idle connections, want %v", files, inFlight, idle, want)
		}
		api, admin := callersFor(files)
		others := min(filesOfOthers, files/2)
		total, least := uint64(inFlight+idle+api+admin)+others-others/8, min(int(files/16), 512) //nolint:gosec // bounded
		if files > 0 && (total > files || admin < least) || api < inFlight || admin < 16 {
			t.Errorf("%d files: %d connections to the API, %d to the admin API", files, api, admin)
		}
	}
	if filesAllowed() == 0 {
		t.Error("it is not known how many files this process may have open")
	}
}

// Many destinations may be at one host, as those of a vendor's customers are: while fewer connections were kept than
// requests are in flight, others were opened each time, and a delivery cost a third more.
func TestConnectionsToSharedHostAreKept(t *testing.T) {
	t.Parallel()
	policy, options, err := DeliveryEgress(&config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	kept := egress.NewTransport(policy, options).MaxIdleConnsPerHost
	if inFlight, _ := connectionsFor(filesAllowed()); kept != inFlight {
		t.Errorf("%d connections to one host are kept of %d", kept, inFlight)
	}
}
