package transporttest

import (
	"errors"
	"testing"
	"time"

	"sluice/executor/transport"
)

// Stopped shows that processes that stand still (SIGSTOP) are given up, which takes about bound on a machine that is not
// busy, and are connected again when they go on. The transport and s.Child's must have short beats.
func Stopped(t *testing.T, s Suite, bound time.Duration) {
	t.Run("Producer", func(t *testing.T) { stoppedProducer(t, s, bound) })
	t.Run("Consumer", func(t *testing.T) { stoppedConsumer(t, s, bound) })
}

func stoppedProducer(t *testing.T, s Suite, bound time.Duration) {
	e := s.start(t)
	_, child := s.Child.start(t, "produce", e.l.Addr())
	for range 2 {
		known := len(e.c.of("child"))
		eventually(t, "messages of the child", func() bool { return len(e.c.of("child")) > known+50 })
		child.stop(t)
		time.Sleep(10 * time.Millisecond)
		got := e.c.of("child")
		last := got[len(got)-1]
		stopped := time.Now()
		eventually(t, "the child is given up", func() bool { return errors.Is(last.back.Send(message(1, 20)), transport.ErrClosed) })
		t.Logf("a process that stands still was given up after %v; the bound is %v", time.Since(stopped), bound)
		child.goOn(t)
		eventually(t, "messages on a new connection", func() bool {
			got = e.c.of("child")
			return got[len(got)-1].back != last.back
		})
	}
	s.rising(t, e.c.of("child"))
	e.c.failed(t)
}

// rising reports the first message that came twice, or after a later one.
func (s Suite) rising(t testing.TB, got []arrival) {
	t.Helper()
	for i := 1; i < len(got); i++ {
		if got[i].n <= got[i-1].n {
			t.Fatalf("arrival %d has number %d, after %d", i, got[i].n, got[i-1].n)
		}
	}
}

func stoppedConsumer(t *testing.T, s Suite, bound time.Duration) {
	tr := s.New(t)
	t.Cleanup(func() { tr.Close() })
	addr, child := s.Child.start(t, "consume", s.Addr(t))
	p := &producer{}
	c, err := tr.Dial(addr, "x", 1, p)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	answered := func() {
		_, _, before := p.count()
		eventually(t, "answers of the child", func() bool {
			if c.Send(message(next, 1000)) == nil {
				next++
			}
			_, _, n := p.count()
			return n > before+20
		})
	}
	for range 2 {
		answered()
		before, _, _ := p.count()
		again := func() bool { n, _, _ := p.count(); return n > before }
		// A producer that does not run either does not find out.
		for pause := 2 * bound; !again(); pause *= 2 {
			if pause > patience {
				t.Fatalf("a process that stood still for %v was not given up", pause/2)
			}
			child.stop(t)
			for stopped := time.Now(); time.Since(stopped) < pause; time.Sleep(time.Millisecond) {
				if c.Send(message(next, 1000)) == nil {
					next++
				}
			}
			child.goOn(t)
			for begin := time.Now(); !again() && time.Since(begin) < patience/4; time.Sleep(time.Millisecond) {
			}
		}
	}
	answered()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 1; i < len(p.got); i++ {
		if p.got[i] <= p.got[i-1] {
			t.Fatalf("answer %d has number %d, after %d", i, p.got[i], p.got[i-1])
		}
	}
}
