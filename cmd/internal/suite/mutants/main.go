// Command mutants asks whether the tests notice when a statement is missing or a condition is turned round. It
// chooses some places by chance, compiles all of them into the tests, each switched on by a variable, and runs with
// each the tests of its package and of the packages that import it, until one is red. It prints what none noticed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	count := flag.Int("n", 200, "how many places are changed")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "the seed of the choice") //nolint:gosec // a seed
	most := flag.Duration("most", time.Hour, "no further place is tried after this time")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./aggregates/...", "./command/...", "./projections/...", "./query/..."}
	}
	if err := run(os.Stdout, *count, *seed, *most, patterns); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, count int, seed uint64, most time.Duration, patterns []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	chosen, err := choose(ctx, root, count, seed, patterns)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d places, seed %d\n", len(chosen), seed)
	chosen, binaries, err := build(ctx, out, root, temporary, chosen)
	if err != nil {
		return err
	}
	begun := time.Now()
	var mu sync.Mutex
	noticed, unreached, tried := 0, 0, 0
	parts := errgroup.Group{}
	parts.SetLimit(runtime.GOMAXPROCS(0))
	for _, m := range chosen {
		parts.Go(func() error {
			if time.Since(begun) > most || ctx.Err() != nil {
				return ctx.Err()
			}
			by, reached := m.try(ctx, binaries)
			mu.Lock()
			defer mu.Unlock()
			tried++
			switch {
			case by != "":
				noticed++
			case reached:
				_, _ = fmt.Fprintln(out, "not noticed:", m)
			default:
				unreached++
				_, _ = fmt.Fprintln(out, "not reached:", m)
			}
			return nil
		})
	}
	err = parts.Wait()
	_, _ = fmt.Fprintf(out, "%d of %d were noticed (%.1f %%), %d were not reached, seed %d\n",
		noticed, tried, 100*float64(noticed)/float64(max(tried, 1)), unreached, seed)
	return err
}

// choose returns some places of the packages by chance, at most one that begins at an offset of a file.
func choose(ctx context.Context, root string, count int, seed uint64, patterns []string) ([]mutant, error) {
	packages, err := list(ctx, patterns...)
	if err != nil {
		return nil, err
	}
	var all []site
	for _, p := range packages {
		more, err := sitesOf(root, p)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a choice that can be repeated
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	type offset struct {
		file string
		from int
	}
	taken := map[offset]bool{}
	var chosen []mutant
	for _, s := range all {
		if at := (offset{s.file, s.from}); len(chosen) < count && !taken[at] {
			taken[at] = true
			chosen = append(chosen, mutant{site: s, number: len(chosen)})
		}
	}
	return chosen, nil
}

// build writes the mutants, without those that can't be compiled, and returns all tests.
func build(ctx context.Context, out io.Writer, root, temporary string, chosen []mutant) ([]mutant, []*binary, error) {
	all, err := list(ctx, "./...")
	if err != nil {
		return nil, nil, err
	}
	for {
		path, err := overlay(root, temporary, chosen)
		if err != nil {
			return nil, nil, err
		}
		arguments := []string{"build", "-gcflags=-e", "-overlay", path}
		for _, m := range chosen {
			arguments = append(arguments, m.importPath)
		}
		said, err := exec.CommandContext(ctx, "go", arguments...).CombinedOutput() //nolint:gosec // go
		if err == nil {
			return chosen, tests(all, out, path, temporary), nil
		}
		left := slices.DeleteFunc(slices.Clone(chosen), func(m mutant) bool {
			return strings.Contains(string(said), fmt.Sprintf("%s:%d:", m.overlaid(), m.line))
		})
		if len(left) == len(chosen) {
			return nil, nil, fmt.Errorf("%w\n%s", err, said)
		}
		chosen = left
	}
}
