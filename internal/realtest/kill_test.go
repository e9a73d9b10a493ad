package realtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"
)

// usual is the rows of most tests, and usualArgs how they are run: for some seconds.
var (
	usual     = data{rows: 36_000, seed: 3}
	usualArgs = []string{"--nodes", "3", "--checkpoint", "200ms", "--set", "a.rate=15000", "--set", "b.rate=7500"}
)

func rewrite(rule, operator string) string {
	return fmt.Sprintf(`<rewrite rule=%q operator=%q/>`, rule, operator)
}

// TestEachWorker kills each worker in turn, then two at once, then all.
func TestEachWorker(t *testing.T) {
	t.Parallel()
	// Five kills, each with the time that a new process takes, are to happen before the rows end.
	q := newQuery(t, everything, usual, "", append(slices.Clone(usualArgs), "--set", "a.rate=6000", "--set", "b.rate=3000")...)
	r := q.start()
	for i, victims := range [][]int{{0}, {1}, {2}, {0, 1}, {0, 1, 2}} {
		s := r.await(fmt.Sprintf("before kill %d", i+1), on(3))
		for _, v := range victims {
			s.signal(t, s.workers()[v], syscall.SIGKILL)
		}
		r.await("the killed ones are gone", func(now status) bool {
			for _, v := range victims {
				if now.pids[s.workers()[v]] != 0 {
					return false
				}
			}
			return true
		})
	}
	r.finish()
	q.check()
	q.checkTumbling()
}

// TestPatterns kills workers at random moments while queries with patterns run.
func TestPatterns(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		args  []string
	}{
		"partitions": {"", []string{"-p", "3"}},
		"hot": {rewrite("hot-standby", "tumbling") + rewrite("hot-standby", "keep") + rewrite("checkpoint", "joint") +
			rewrite("standby", "shape") + rewrite("checkpoint", "session"), []string{"--transport", "ipc"}},
		"both": {rewrite("partition", "joint") + rewrite("hot-standby", "joint") + rewrite("checkpoint", "byRows") +
			rewrite("standby", "even") + rewrite("hot-standby", "hopping"), []string{"--transport", "lz4+tcp"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQuery(t, everything, usual, c.rules, append(c.args, usualArgs...)...)
			r := q.start()
			kills := 0
			for kills < 4 {
				s, ok := r.awaitOrEnd("all run", on(3))
				if !ok {
					break
				}
				time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
				s.signal(t, s.workers()[rand.IntN(3)], syscall.SIGKILL)
				kills++
			}
			r.finish()
			if kills < 2 {
				t.Errorf("only %d kills", kills)
			}
			q.check()
		})
	}
}

// TestParent kills the scheduler's process at random moments; workers end with it, and the next run goes on.
func TestParent(t *testing.T) {
	t.Parallel()
	q := newQuery(t, everything, usual, rewrite("hot-standby", "tumbling")+rewrite("checkpoint", "joint"), usualArgs...)
	for range 3 {
		r := q.start()
		s := r.await("all run", on(3))
		time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond)
		if err := r.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-r.over
		var pids []int
		for _, pid := range s.pids {
			pids = append(pids, pid)
		}
		awaitGone(t, pids)
	}
	q.start().finish()
	q.check()
}
