package fetch_test

import (
	"testing"

	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/fetch/hoststest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	hosts := fetch.NewMemory()
	hoststest.Run(t, func(*testing.T) fetch.Hosts { return hosts })
}
