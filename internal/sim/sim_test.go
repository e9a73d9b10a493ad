package sim

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestCalm: without faults everything is right, for each shape of query and each rewrite.
func TestCalm(t *testing.T) {
	for _, shape := range sorted(shapes) {
		for i, rewrites := range rewriteMenu {
			t.Run(fmt.Sprint(shape, rewrites), func(t *testing.T) {
				t.Parallel()
				if r := calm(uint64(i), shape, rewrites...).run(tracer(t)); r.err != nil {
					t.Error(r.describe())
				}
			})
		}
	}
}

// TestSeeds: under drawn faults everything is right. SIM_SEED runs one seed, SIM_SEEDS says how many
// there are to be, from SIM_FIRST on, and SIM_OFF switches rules off.
func TestSeeds(t *testing.T) {
	off, err := parseOff(os.Getenv("SIM_OFF"))
	if err != nil {
		t.Fatal(err)
	}
	if seed, ok := environment("SIM_SEED"); ok {
		p := drawPlan(seed)
		p.Off = off
		r := p.run(tracer(t))
		if r.err != nil {
			t.Error(r.describe())
		}
		t.Logf("%d steps, %d ms", r.world.steps, (r.world.now-beginning)/millisecond)
		return
	}
	n := usualSeeds
	if testing.Short() {
		n = min(n, 200)
	}
	if given, ok := environment("SIM_SEEDS"); ok {
		n = int(given)
	}
	first, _ := environment("SIM_FIRST")
	var failed, steps atomic.Int64
	var mu sync.Mutex
	counts := map[string]int{}
	each(n, func(i int) {
		seed := first + uint64(i)
		p := drawPlan(seed)
		p.Off = off
		if failed.Load() >= mostFailures {
			return
		}
		r := p.run(nil)
		steps.Add(r.world.steps)
		mu.Lock()
		for what, k := range r.world.counts {
			counts[what] += k
		}
		mu.Unlock()
		if r.err == nil {
			return
		}
		text := r.describe()
		if failed.Add(1) > 1 {
			text, _, _ = strings.Cut(text, "\n")
		}
		t.Errorf("seed %d: %s\nagain: SIM_SEED=%d SIM_OFF=%s go test -run '^TestSeeds$' ./internal/sim", seed, text, seed, os.Getenv("SIM_OFF"))
	})
	t.Logf("%d seeds, %d steps; %v", n, steps.Load(), counts)
	for _, what := range wanted {
		if n >= 1000 && failed.Load() == 0 && counts[what] < 10 {
			t.Errorf("%s: only %d in %d seeds", what, counts[what], n)
		}
	}
}

// wanted are things that have to happen often enough for TestSeeds to mean something.
var wanted = []string{
	"launches from a checkpoint", "standbys launched", "processes that ended", "schedulers that ended", "epochs of zombies",
	"changes", "late votes", "trimmed", "retries", "moves", "breaks", "stops", "launches of tasks that need resources",
	"schedulers that were deposed", "launches by former schedulers", "kills by former schedulers", "ends by former schedulers", "saves refused",
	"preferences", "workers that ended before they were up", "spills", "spills that failed", "reads of spilled rows", "spilled rows that were lost",
	"machines that died", "epochs lost with machines", "commits lost with machines", "rows of files lost with machines",
}

// TestStops: without faults a query that is stopped comes to a checkpoint in time, and another process goes
// on from there.
func TestStops(t *testing.T) {
	for seed := range uint64(60) {
		p := drawPlan(seed)
		c := calm(seed, p.Shape, p.Rewrites...)
		c.Interval, c.Every, c.Flight, c.StopAt, c.Endless = p.Interval, p.Every, p.Flight, second, seed%2 == 0
		r := c.run(tracer(t))
		if r.err == nil && r.world.counts["stops without a checkpoint"] > 0 {
			r.err = errors.New("the query was stopped without a checkpoint")
		}
		if r.err != nil {
			t.Fatalf("seed %d: %s", seed, r.describe())
		}
	}
}

// mostFailures is after how many failing seeds TestSeeds gives up. It describes the first one.
const mostFailures = 50

// TestReplays: a seed gives the same run each time.
func TestReplays(t *testing.T) {
	for seed := range uint64(5) {
		var first []string
		drawPlan(seed).run(func(line string) { first = append(first, line) })
		i := 0
		drawPlan(seed).run(func(line string) {
			if i < len(first) && first[i] != line && !t.Failed() {
				t.Errorf("seed %d: line %d is %q, and was %q", seed, i, line, first[i])
			}
			i++
		})
		if i != len(first) {
			t.Errorf("seed %d: %d lines, %d before", seed, i, len(first))
		}
	}
}

// each calls f with 0 to n-1, on all cores.
func each(n int, f func(int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := int(next.Add(1) - 1); i < n; i = int(next.Add(1) - 1) {
				f(i)
			}
		})
	}
	all.Wait()
}

// tracer logs everything that happens if SIM_TRACE is set.
func tracer(t *testing.T) func(string) {
	if os.Getenv("SIM_TRACE") == "" {
		return nil
	}
	return func(line string) { t.Log(line) }
}

func environment(name string) (uint64, bool) {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	return n, err == nil
}
