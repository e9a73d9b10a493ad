package realtest

import (
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestStopSoon stops a query just after workers have been killed, again and again. Each stop is soon over, and its
// epoch is soon reached by the clock: it is not moved ahead of it more and more, which the next run would wait for.
func TestStopSoon(t *testing.T) {
	t.Parallel()
	q := newQuery(t, everything, data{rows: 24_000, seed: 8}, rewrite("hot-standby", "even"), "--nodes", "3", "--checkpoint", "50ms", "--set", "a.rate=10000", "--set", "b.rate=5000")
	for i := range 4 {
		r := q.start()
		s := r.await("all run", on(3))
		for _, w := range s.workers()[:i%3] {
			s.signal(t, w, syscall.SIGKILL)
		}
		if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		last := s
		for !r.ended() {
			if now, ok := r.status(); ok {
				last = now
			}
			time.Sleep(pollTime)
		}
		r.finish()
		epoch, err := strconv.ParseInt(last.tasks["a"].epoch, 10, 64)
		if err != nil {
			t.Fatalf("%v: %s", err, last.text)
		}
		if ahead := time.Until(time.UnixMilli(epoch * 10)); ahead > 2*time.Second {
			t.Fatalf("stop %d: the last epoch is %v ahead:\n%s", i+1, ahead, last.text)
		}
	}
	q.start().finish()
	q.check()
}
