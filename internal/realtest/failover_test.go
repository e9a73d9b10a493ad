package realtest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watch is how the epoch of a task grows.
type watch struct {
	stop  chan struct{}
	over  chan struct{}
	moves []time.Time // when another epoch was seen
	pause time.Duration
}

// watchEpoch watches the epoch of a task until its end is called.
func watchEpoch(r *run, task string) *watch {
	w := &watch{stop: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(w.over)
		epoch, asked := "", time.Now()
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(pollTime):
			}
			s, ok := r.status()
			now := time.Now()
			w.pause, asked = max(w.pause, now.Sub(asked)), now
			if at := s.tasks[task].epoch; ok && at != epoch {
				epoch = at
				w.moves = append(w.moves, now)
			}
		}
	}()
	return w
}

// end ends it, and gives the longest time without another epoch that overlaps a period, and the longest time
// between two looks: that much may be due to a busy machine.
func (w *watch) end(from, to time.Time) (gap, pause time.Duration) {
	close(w.stop)
	<-w.over
	last := from
	for _, at := range w.moves {
		if at.Before(from) {
			continue
		}
		gap = max(gap, at.Sub(last))
		last = at
		if at.After(to) {
			break
		}
	}
	if last.Before(to) {
		gap = max(gap, to.Sub(last))
	}
	return gap, w.pause
}

// count is small with an operator that has state.
const count = rowType + `
  <operator name="both" type="union"><input name="rowsA"/><input name="rowsB"/><output name="rows"/></operator>
  <operator name="f" type="aggregate"><input name="rows"/><param name="window" value="tumbling(10s)"/><param name="group-by" value="k"/>
    <param name="select" value="window_start, k, count(*) AS n, sum(v) AS s"/><output name="good"/></operator>
  <operator name="out" type="writer"><input name="good"/><param name="path" value="out.csv"/></operator>
`

// failover is the death of the worker of a task.
type failover struct {
	name, rules string
	victim      string // the task
}

// TestFailover kills the worker of one operator, and of nothing else, under each pattern. Rows cross between
// processes; what ran elsewhere runs on; and with a hot standby the sink never stands still for a second.
func TestFailover(t *testing.T) {
	for _, c := range []failover{
		{"hot standby", rewrite("hot-standby", "f"), "f.1"},
		{"checkpoint", rewrite("checkpoint", "f"), "f.1"},
		{"standby", rewrite("standby", "f"), "f.1"},
		{"no rule", "", "f"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for tries := 1; ; tries++ {
				trouble := testFailover(t, c)
				if trouble == "" {
					return
				}
				if tries == mostStalls {
					t.Fatalf("each time more than one worker is disturbed:\n%s", trouble)
				}
				t.Logf("for want of time or by mistake:\n%s", trouble)
			}
		})
	}
}

// testFailover tells what else was disturbed when a worker was killed.
func testFailover(t *testing.T, c failover) string {
	body := count
	if c.name == "standby" {
		body = small
	}
	q := newQuery(t, body, data{rows: 24_000, seed: 4}, c.rules, "--nodes", "9", "--checkpoint", "200ms", "--set", "a.rate=4000", "--set", "b.rate=2000")
	r := q.start()
	before := r.await("all run", on(9))
	victim := before.tasks[c.victim].worker
	for name, task := range before.tasks {
		if task.worker == victim && name != c.victim {
			t.Fatalf("tasks %s and %s share a worker:\n%s", name, c.victim, before.text)
		}
	}
	before = r.await("rows arrive", func(s status) bool { return s.tasks["out"].received > 100 && s.tasks[c.victim].received > 100 })
	if before.tasks["out"].worker == victim {
		t.Fatal("the sink is on the worker to be killed")
	}
	w := watchEpoch(r, "out")
	r.await("the sink is seen", func(s status) bool { return len(s.tasks) > 0 })
	killed := time.Now()
	before.signal(t, victim, syscall.SIGKILL)
	after := r.await("it runs again", func(s status) bool {
		return s.pids[victim] == 0 && s.running() && s.tasks[c.victim].generation > before.tasks[c.victim].generation
	})
	again := time.Now()
	time.Sleep(time.Second)
	gap, pause := w.end(killed, time.Now())
	t.Logf("%s: the sink stood still for %v, the task runs again after %v (looked every %v at least)", c.name, gap.Round(time.Millisecond), again.Sub(killed).Round(time.Millisecond), pause.Round(time.Millisecond))
	trouble := changed(before, after, victim)
	if c.name == "hot standby" && gap-pause > time.Second {
		trouble += fmt.Sprintf("the sink stood still for %v\n", gap)
	}
	r.finish()
	q.check()
	return trouble
}

// changed tells which workers but one have other processes, and which of their tasks other generations.
func changed(before, after status, one string) string {
	var all strings.Builder
	for w, pid := range before.pids {
		if w != one && after.pids[w] != pid {
			fmt.Fprintf(&all, "worker %s is process %d, was %d\n", w, after.pids[w], pid)
		}
	}
	for name, task := range before.tasks {
		if task.worker != one && task.state == "running" && (after.tasks[name].generation != task.generation || after.tasks[name].worker != task.worker) {
			fmt.Fprintf(&all, "task %s has changed:\n%s\n%s\n", name, before.text, after.text)
		}
	}
	if slices.Contains(after.workers(), one) {
		fmt.Fprintf(&all, "still there: %s\n", one)
	}
	return all.String()
}
