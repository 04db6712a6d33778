package app

import "testing"

func TestConnectionsLeaveFilesToOthers(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64][2]int{
		0: {2048, maxIdle}, 256: {96, 32}, 1024: {384, 128}, 4096: {2048, 1536}, 6656: {2048, maxIdle}, 20_000: {2048,
			maxIdle}, 1<<64 - 1: {2048, maxIdle},
	} {
		inFlight, idle := connectionsFor(files)
		if inFlight != want[0] || idle != want[1] {
			t.Errorf("%d files: %d requests and %d idle connections, want %v", files, inFlight, idle, want)
		}
		if others := min(filesOfOthers, files/2); files > 0 && uint64(inFlight+idle)+others > files {
			t.Errorf("%d files: none are left to others", files)
		}
	}
	if filesAllowed() == 0 {
		t.Error("it is not known how many files this process may have open")
	}
}
