package curatetest_test

import (
	"testing"

	"carillon/command/curate"
	"carillon/command/curate/curatetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	curatetest.Run(t, func(*testing.T) (curate.Memory, curate.Likeness) {
		m := curatetest.New()
		return m, m
	})
}
