package realtest

import (
	"slices"
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
		if took := time.Since(stopped); took < liveness/2 {
			t.Errorf("given up after %v", took)
		}
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

// TestShortStall stops workers for less than the scheduler waits, and the scheduler itself for longer: nothing is
// launched anew. A copy that falls behind a checkpoint which the other one completes would be, from that
// checkpoint; so with copies there is none.
func TestShortStall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, interval string }{{"checkpoint", "200ms"}, {"hot-standby", "1h"}} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			long := usual
			long.rows *= 2
			q := newQuery(t, everything, long, rewrite(c.rule, "tumbling"), slices.Concat(usualArgs, []string{"--checkpoint", c.interval})...)
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
			time.Sleep(liveness / 2)
			now := r.await("all run", on(3))
			for name, task := range s.tasks {
				if now.tasks[name].generation != task.generation {
					t.Errorf("task %s is of generation %d, was %d", name, now.tasks[name].generation, task.generation)
				}
			}
			for w, pid := range s.pids {
				if now.pids[w] != pid {
					t.Errorf("worker %s is process %d, was %d", w, now.pids[w], pid)
				}
			}
			if t.Failed() {
				t.Logf("%s\n%s\n%s", s.text, now.text, r.said.String())
			}
			r.finish()
			q.check()
		})
	}
}
