package transporttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/executor/transport"
)

// Suite says how to make and reach a transport.
type Suite struct {
	// New makes a transport; the suite closes it.
	New func(t testing.TB) transport.Transport
	// Addr is an address to listen at, a free one each time.
	Addr func(t testing.TB) string
	// Largest is the size of the largest message that is sent, in bytes. Default 8 MiB.
	Largest int
	// Lossy says that single messages may be lost.
	Lossy bool
	// InFlight bounds what a connection takes, in bytes, while its consumer takes nothing. Default 64 MiB.
	InFlight int
	// Hostile sends to addr what no transport would. Nil if there is no way to.
	Hostile func(t testing.TB, addr string)
	// Child, if set, lets processes be killed.
	Child *Child
}

// Run runs the whole suite.
func Run(t *testing.T, s Suite) {
	if s.Largest == 0 {
		s.Largest = 8 << 20
	}
	if s.InFlight == 0 {
		s.InFlight = 64 << 20
	}
	parts := []struct {
		name string
		run  func(testing.TB, Suite)
	}{
		{"Order", testOrder},
		{"Sizes", testSizes},
		{"ManyChannels", testManyChannels},
		{"Generations", testGenerations},
		{"LateListener", testLateListener},
		{"Reopened", testReopened},
		{"SlowConsumer", testSlowConsumer},
		{"CloseWhileSending", testCloseWhileSending},
		{"CloseInHandler", testCloseInHandler},
		{"AfterClose", testAfterClose},
		{"ListenerClose", testListenerClose},
		{"ProducerGone", testProducerGone},
		{"Refused", testRefused},
		{"Hostile", testHostile},
		{"KilledProducer", testKilledProducer},
		{"KilledConsumer", testKilledConsumer},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			known := goleak.IgnoreCurrent()
			// Registered first, so it runs after all that the part closes.
			t.Cleanup(func() {
				if !t.Skipped() {
					goleak.VerifyNone(t, known)
				}
			})
			p.run(t, s)
		})
	}
}

// testOrder: messages arrive whole and in order, and so do the answers.
func testOrder(t testing.TB, s Suite) {
	e := s.start(t)
	e.c.answers()
	c, p := e.dial("orders", 7)
	const count = 3000
	for n := range count {
		send(t, c, message(n, header+(n*37)%5000))
		if s.Lossy && n%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if s.Lossy {
		eventually(t, "nine messages of ten", func() bool { return len(e.c.of("orders")) > count*9/10 })
	} else {
		eventually(t, "all answers", func() bool { _, _, n := p.count(); return n >= count })
	}
	got := e.c.of("orders")
	s.ascending(t, got, 0)
	for _, a := range got {
		if a.generation != 7 || a.size != header+(a.n*37)%5000 {
			t.Fatalf("message %d: generation %d, %d bytes", a.n, a.generation, a.size)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, n := range p.got {
		if n != i && !s.Lossy || i > 0 && n <= p.got[i-1] {
			t.Fatalf("answer %d has number %d", i, n)
		}
	}
	for _, err := range p.errs {
		t.Error(err)
	}
	e.c.failed(t)
}

// testSizes: messages of no byte and of many, both ways.
func testSizes(t testing.TB, s Suite) {
	e := s.start(t)
	c, p := e.dial("sizes", 1)
	for i, size := range []int{0, 1, header, 1000, 1400, 1500, 64 << 10, 1<<20 + 1, 8 << 20} {
		if size > s.Largest {
			continue
		}
		again := func(send func([]byte) error, seen func() bool) func() bool {
			sent := false
			return func() bool {
				if !sent || s.Lossy {
					sent = send(message(i, size)) == nil || sent
				}
				return seen()
			}
		}
		var back transport.Conn
		eventually(t, fmt.Sprintf("a message of %d bytes", size), again(c.Send, func() bool {
			got := e.c.of("sizes")
			for _, a := range got {
				if a.size == size && (size < header || a.n == i) {
					back = a.back
					return true
				}
			}
			return false
		}))
		if size < header {
			continue
		}
		eventually(t, fmt.Sprintf("an answer of %d bytes", size), again(back.Send, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return slices.Contains(p.got, i)
		}))
	}
	if got := e.c.of("sizes"); !s.Lossy && len(got) > 9 {
		t.Errorf("%d messages arrived of 9 sent", len(got))
	}
	e.c.failed(t)
}

// testManyChannels: the channels of one listener do not mix.
func testManyChannels(t testing.TB, s Suite) {
	e := s.start(t)
	e.c.answers()
	channels, count := 60, 100
	if s.Lossy {
		channels, count = 10, 20
	}
	var wg sync.WaitGroup
	for i := range channels {
		name := fmt.Sprintf("channel-%d", i)
		c, p := e.dial(name, int64(i))
		wg.Go(func() {
			for n := range count {
				send(t, c, message(n, header+i*10))
				if s.Lossy {
					time.Sleep(time.Millisecond)
				}
			}
			if !s.Lossy {
				eventually(t, "all answers of "+name, func() bool { _, _, n := p.count(); return n == count })
			}
		})
	}
	wg.Wait()
	for i := range channels {
		name := fmt.Sprintf("channel-%d", i)
		if s.Lossy {
			eventually(t, "most of "+name, func() bool { return len(e.c.of(name)) > count/2 })
		}
		s.ascending(t, e.c.of(name), 0)
		for _, a := range e.c.of(name) {
			if a.generation != int64(i) || a.size != header+i*10 || a.back != e.c.of(name)[0].back {
				t.Fatalf("%s: message %d has generation %d, %d bytes, or another back", name, a.n, a.generation, a.size)
			}
		}
	}
	e.c.failed(t)
}

// testGenerations: two instances of one task, an old one and its successor, are told apart.
func testGenerations(t testing.TB, s Suite) {
	e := s.start(t)
	old, oldP := e.dial("x", 3)
	young, youngP := e.dial("x", 4)
	var got []arrival
	eventually(t, "a message of each", func() bool {
		old.Send(message(30, 100))
		young.Send(message(40, 100))
		got = e.c.of("x")
		seen := map[int64]bool{}
		for _, a := range got {
			seen[a.generation] = true
		}
		return len(seen) == 2
	})
	backs := map[int64]transport.Conn{}
	for _, a := range got {
		if a.n != int(a.generation)*10 {
			t.Fatalf("message %d came with generation %d", a.n, a.generation)
		}
		if b := backs[a.generation]; b != nil && b != a.back {
			t.Fatal("back is not the same for two messages of one connection")
		}
		backs[a.generation] = a.back
	}
	if backs[3] == backs[4] {
		t.Fatal("back is the same for two connections")
	}
	eventually(t, "answers", func() bool {
		backs[3].Send(message(3, 20))
		backs[4].Send(message(4, 20))
		_, _, o := oldP.count()
		_, _, y := youngP.count()
		return o > 0 && y > 0
	})
	for i, p := range []*producer{oldP, youngP} {
		p.mu.Lock()
		for _, n := range p.got {
			if n != 3+i {
				t.Errorf("generation %d was answered %d", 3+i, n)
			}
		}
		p.mu.Unlock()
	}
}

// testRefused: what can be seen to be wrong at once gives an error.
func testRefused(t testing.TB, s Suite) {
	e := s.start(t)
	long := strings.Repeat("c", 4097)
	if _, err := e.tr.Dial(e.l.Addr(), long, 1, &producer{}); err == nil {
		t.Error("a channel's name of 4097 bytes was taken")
	}
	for _, addr := range []string{"", "nonsense", "://", "unknown://x"} {
		if _, err := e.tr.Dial(addr, "c", 1, &producer{}); err == nil {
			t.Errorf("dial %q was taken", addr)
		}
		if _, err := e.tr.Listen(addr, e.c); err == nil {
			t.Errorf("listen %q was taken", addr)
		}
	}
	c, _ := e.dial(long[:4096], 1)
	if err := c.Send(make([]byte, transport.MaxMessage+1)); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("a message above MaxMessage: %v", err)
	}
	send(t, c, message(5, 50))
	eventually(t, "the message after it", func() bool {
		if s.Lossy {
			c.Send(message(5, 50))
		}
		return len(e.c.of(long[:4096])) > 0
	})
	if l, err := e.tr.Listen(e.l.Addr(), e.c); err == nil && !strings.HasPrefix(e.l.Addr(), "ipc://") {
		t.Errorf("%s was taken twice", l.Addr())
	}
}
