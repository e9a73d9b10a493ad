package realtest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// liveness is after how long without a sign of life a worker has failed.
const liveness = time.Second

// TestStall stops workers for longer than the scheduler waits. They are fenced: whatever they do when they go on
// counts for nothing.
func TestStall(t *testing.T) {
	t.Parallel()
	q := newQuery(t, everything, usual, rewrite("hot-standby", "tumbling")+rewrite("checkpoint", "joint"), usualArgs...)
	r := q.start()
	for range 2 {
		s := r.await("all run", on(3))
		victim := s.workers()[1]
		s.signal(t, victim, syscall.SIGSTOP)
		stopped := time.Now()
		now := r.await("the stalled one has failed", func(now status) bool { return now.pids[victim] == 0 })
		t.Logf("given up after %v", time.Since(stopped))
		moved := 0
		for name, task := range s.tasks {
			if task.worker == victim && now.tasks[name].generation > task.generation {
				moved++
			}
		}
		if moved == 0 {
			t.Errorf("no task of the stalled worker has a new generation:\n%s\n%s", s.text, now.text)
		}
		s.signal(t, victim, syscall.SIGCONT)
	}
	r.finish()
	q.check()
}

// mostStalls is how often in a row a busy machine may make more of a stall than it is.
const mostStalls = 4

// TestShortStall stops workers for less than the scheduler waits, and the scheduler itself for longer: nothing is
// launched anew. A copy that falls behind a checkpoint which the other one completes would be, from that
// checkpoint; so with copies there is none. The rows are those of an undisturbed run whether something is launched or not.
func TestShortStall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, interval string }{{"checkpoint", "200ms"}, {"hot-standby", "1h"}} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			for tries := 1; ; tries++ {
				again := shortStall(t, c.rule, c.interval)
				if again == "" {
					return
				}
				if tries == mostStalls {
					t.Fatalf("something is launched anew each time:\n%s", again)
				}
				t.Logf("something was launched anew, for want of time or by mistake:\n%s", again)
			}
		})
	}
}

// shortStall tells what is launched anew in a query of which processes are stopped for a short time.
func shortStall(t *testing.T, rule, interval string) string {
	long := usual
	long.rows *= 2
	q := newQuery(t, everything, long, rewrite(rule, "tumbling"), slices.Concat(usualArgs, []string{"--checkpoint", interval})...)
	r := q.start()
	s := r.await("all run", on(3))
	for _, w := range s.workers() {
		s.signal(t, w, syscall.SIGSTOP)
		time.Sleep(liveness * 3 / 10) // this is how long it is stopped, not a wait for something
		s.signal(t, w, syscall.SIGCONT)
	}
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * liveness)
	if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(liveness / 2) // whoever would give up workers does so now
	now := r.await("all run", on(3))
	var again strings.Builder
	for name, task := range s.tasks {
		if now.tasks[name].generation != task.generation {
			fmt.Fprintf(&again, "task %s is of generation %d, was %d\n", name, now.tasks[name].generation, task.generation)
		}
	}
	for w, pid := range s.pids {
		if now.pids[w] != pid {
			fmt.Fprintf(&again, "worker %s is process %d, was %d\n", w, now.pids[w], pid)
		}
	}
	if again.Len() > 0 {
		fmt.Fprintf(&again, "%s\n%s\n%s", s.text, now.text, r.said.String())
	}
	r.finish()
	q.check()
	return again.String()
}
