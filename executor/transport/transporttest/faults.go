package transporttest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"sluice/executor/transport"
)

// testLateListener: who dials first is connected when the listener comes.
func testLateListener(t testing.TB, s Suite) {
	e := s.start(t)
	addr := e.l.Addr()
	if err := e.l.Close(); err != nil {
		t.Fatal(err)
	}
	p := &producer{}
	c, err := e.tr.Dial(addr, "late", 1, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(message(0, 30)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if n, _, _ := p.count(); n != 0 {
		t.Fatal("connected to nobody")
	}
	e.listen(addr)
	eventually(t, "connected", func() bool { n, _, _ := p.count(); return n > 0 })
	s.flows(t, e, c, "late", 1)
}

// flows shows that messages from number n on get through.
func (s Suite) flows(t testing.TB, e *ends, c transport.Conn, channel string, n int) {
	t.Helper()
	eventually(t, "a message of "+channel, func() bool {
		if err := c.Send(message(n, 40)); err != nil && !errors.Is(err, transport.ErrFull) {
			t.Fatal(err)
		}
		got := e.c.of(channel)
		return len(got) > 0 && got[len(got)-1].n >= n
	})
	e.c.failed(t)
}

// testReopened: a listener that comes back at its address gets its producers back, and they are told.
func testReopened(t testing.TB, s Suite) {
	e := s.start(t)
	a, ap := e.dial("a", 1)
	b, bp := e.dial("b", 1)
	for round := range 3 {
		s.flows(t, e, a, "a", 10*round)
		s.flows(t, e, b, "b", 10*round)
		addr := e.l.Addr()
		if err := e.l.Close(); err != nil {
			t.Fatal(err)
		}
		before, _, _ := ap.count()
		beforeB, _, _ := bp.count()
		e.listen(addr)
		eventually(t, "connected again", func() bool {
			n, _, _ := ap.count()
			m, _, _ := bp.count()
			return n > before && m > beforeB
		})
	}
	s.flows(t, e, a, "a", 100)
	got := e.c.of("a")
	if got[0].back == got[len(got)-1].back {
		t.Error("back is the same before and after a break")
	}
	if err := got[0].back.Send(message(1, 20)); err != nil && !errors.Is(err, transport.ErrClosed) {
		t.Errorf("a back of before: %v", err)
	}
}

// testSlowConsumer: a consumer that takes nothing makes Send return ErrFull after a bounded amount; when it
// goes on, all that was taken arrives, and there is room again.
func testSlowConsumer(t testing.TB, s Suite) {
	e := s.start(t)
	gate := make(chan struct{})
	e.c.waits(gate)
	var open sync.Once
	defer open.Do(func() { close(gate) })
	c, p := e.dial("slow", 1)
	size := min(64<<10, s.Largest)
	n := 0
	full := func() bool { // full is what stays full
		for range 50 {
			err := c.Send(dense(n, size))
			if err == nil {
				n++
				return false
			}
			if !errors.Is(err, transport.ErrFull) {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		return true
	}
	if s.Lossy {
		for range 2000 { // what is not taken is lost, at the latest in the kernel
			if err := c.Send(dense(n, size)); err == nil {
				n++
			}
		}
	} else {
		eventually(t, "full", full)
	}
	if n*size > s.InFlight && !s.Lossy {
		t.Errorf("%d bytes were taken while the consumer took nothing; at most %d may be", n*size, s.InFlight)
	}
	open.Do(func() { close(gate) })
	if !s.Lossy {
		eventually(t, "all that was taken", func() bool { return len(e.c.of("slow")) >= n })
		eventually(t, "drained", func() bool { _, d, _ := p.count(); return d > 0 })
	}
	s.flows(t, e, c, "slow", n)
	s.ascending(t, e.c.below("slow", n), 0)
}

// testCloseWhileSending: closing from one goroutine while others send neither blocks nor leaks.
func testCloseWhileSending(t testing.TB, s Suite) {
	e := s.start(t)
	e.c.answers()
	var wg sync.WaitGroup
	var conns []transport.Conn
	for range 8 {
		c, _ := e.dial("c", 1)
		conns = append(conns, c)
		wg.Go(func() {
			for {
				err := c.Send(message(1, 1000))
				if errors.Is(err, transport.ErrClosed) {
					return
				}
				if err != nil {
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	for _, c := range conns[:4] {
		c.Close()
		c.Close()
	}
	e.l.Close()
	time.Sleep(10 * time.Millisecond)
	e.stop()
	wg.Wait()
}

// closing is a DialHandler that closes its connection when it hears something.
type closing struct {
	producer
	conn chan transport.Conn
	done chan struct{}
}

func (c *closing) Message([]byte) {
	(<-c.conn).Close()
	close(c.done)
}

// testCloseInHandler: a handler may close its connection.
func testCloseInHandler(t testing.TB, s Suite) {
	e := s.start(t)
	h := &closing{conn: make(chan transport.Conn, 1), done: make(chan struct{})}
	c, err := e.tr.Dial(e.l.Addr(), "x", 1, h)
	if err != nil {
		t.Fatal(err)
	}
	h.conn <- c
	s.flows(t, e, c, "x", 1)
	back := e.c.of("x")[0].back
	eventually(t, "closed", func() bool {
		back.Send(message(1, 20))
		select {
		case <-h.done:
			return true
		default:
			return false
		}
	})
	if err := c.Send(nil); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("send after close: %v", err)
	}
}

// testAfterClose: what is closed says so.
func testAfterClose(t testing.TB, s Suite) {
	e := s.start(t)
	c, _ := e.dial("x", 1)
	d, _ := e.dial("y", 1)
	s.flows(t, e, d, "y", 1)
	back := e.c.of("y")[0].back
	if err := back.Close(); err != nil {
		t.Error(err)
	}
	if err := back.Send(message(1, 20)); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("send on a closed back: %v", err)
	}
	s.flows(t, e, d, "y", 2)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Send(message(1, 20)); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("send on a closed connection: %v", err)
	}
	s.flows(t, e, d, "y", 3)
	addr := e.l.Addr()
	e.stop()
	if err := d.Send(message(1, 20)); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("send on a closed transport: %v", err)
	}
	if _, err := e.tr.Dial(addr, "x", 1, &producer{}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("dial on a closed transport: %v", err)
	}
	if _, err := e.tr.Listen(addr, e.c); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("listen on a closed transport: %v", err)
	}
}

// testListenerClose: after a listener's Close its handler is called no more.
func testListenerClose(t testing.TB, s Suite) {
	e := s.start(t)
	c, _ := e.dial("x", 1)
	s.flows(t, e, c, "x", 1)
	for range 100 {
		c.Send(message(2, 500))
	}
	e.l.Close()
	n := len(e.c.of("x"))
	for range 20 {
		c.Send(message(3, 500))
		time.Sleep(time.Millisecond)
	}
	if m := len(e.c.of("x")); m != n {
		t.Errorf("%d messages came after Close", m-n)
	}
}

// testProducerGone: a back whose producer has closed takes and drops, or is closed, and harms nobody.
func testProducerGone(t testing.TB, s Suite) {
	e := s.start(t)
	a, _ := e.dial("a", 1)
	b, bp := e.dial("b", 1)
	s.flows(t, e, a, "a", 1)
	s.flows(t, e, b, "b", 1)
	gone, there := e.c.of("a")[0].back, e.c.of("b")[0].back
	a.Close()
	for range 200 {
		if err := gone.Send(message(1, 100)); err != nil && !errors.Is(err, transport.ErrClosed) {
			t.Fatalf("back of a producer that is gone: %v", err)
		}
		time.Sleep(100 * time.Microsecond)
	}
	eventually(t, "an answer to the other", func() bool {
		there.Send(message(1, 100))
		_, _, n := bp.count()
		return n > 0
	})
}

// testHostile: bytes that no transport sends do not disturb a connection.
func testHostile(t testing.TB, s Suite) {
	if s.Hostile == nil {
		t.Skip("nobody else can reach this transport")
	}
	e := s.start(t)
	c, _ := e.dial("good", 1)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	sent := 0
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if c.Send(message(sent, 200)) == nil {
				sent++
			}
			time.Sleep(200 * time.Microsecond)
		}
	})
	s.Hostile(t, e.l.Addr())
	time.Sleep(50 * time.Millisecond)
	close(stop)
	wg.Wait()
	if s.Lossy {
		s.flows(t, e, c, "good", sent)
	} else {
		eventually(t, "all good messages", func() bool { return len(e.c.of("good")) == sent })
	}
	s.ascending(t, e.c.below("good", sent), 0)
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	for name := range e.c.got {
		if name != "good" {
			t.Errorf("the handler was called for a channel %q", name)
		}
	}
}
