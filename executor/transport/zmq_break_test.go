package transport_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/executor/transport"
)

// proxy stands between a producer and a listener. While frozen it forwards nothing and closes nothing, like a
// network that has gone.
type proxy struct {
	l      net.Listener
	to     string
	frozen atomic.Bool
	mu     sync.Mutex
	conns  []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", p.to)
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, c, d)
			p.mu.Unlock()
			wg.Go(func() { p.forward(c, d) })
			wg.Go(func() { p.forward(d, c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

func (p *proxy) forward(from, to net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if p.frozen.Load() {
			io.Copy(io.Discard, from) // for ever: neither side hears of the other
			return
		}
		if err != nil {
			to.Close()
			return
		}
		to.Write(buf[:n])
	}
}

// TestZMQFrozen: a peer that nothing comes from, though the connection is not closed, is given up after some
// heartbeats, and connected again.
func TestZMQFrozen(t *testing.T) {
	tr := newZMQ(t, transport.Options{Heartbeat: 100 * time.Millisecond})
	in, out := listening{&heard{}}, dialing{&heard{}}
	l, err := tr.Listen("tcp://127.0.0.1:*", in)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, strings.TrimPrefix(l.Addr(), "tcp://"))
	c, err := tr.Dial("tcp://"+p.l.Addr().String(), "x", 1, out)
	if err != nil {
		t.Fatal(err)
	}
	if !within(t, 10*time.Second, func() bool { _, n := out.count(); return n == 1 }) {
		t.Fatal("not connected")
	}
	p.frozen.Store(true)
	time.Sleep(300 * time.Millisecond)
	p.frozen.Store(false) // for new connections; those of before stay as they are
	if !within(t, 10*time.Second, func() bool { _, n := out.count(); return n >= 2 }) {
		t.Fatal("not connected again")
	}
	before, _ := out.count()
	if err := c.Send([]byte("after")); err != nil {
		t.Fatal(err)
	}
	if !within(t, 10*time.Second, func() bool { n, _ := out.count(); return n > before }) {
		t.Fatal("nothing gets through after the break")
	}
}

// backs is a Handler that keeps the last back.
type backs struct {
	last atomic.Pointer[transport.Conn]
}

func (b *backs) Message(_ string, _ int64, _ []byte, back transport.Conn) { b.last.Store(&back) }

// TestZMQForgets: a listener forgets a producer that has ended, also if nothing is sent to it.
func TestZMQForgets(t *testing.T) {
	tr := newZMQ(t, transport.Options{Heartbeat: 100 * time.Millisecond})
	in := &backs{}
	l, err := tr.Listen("tcp://127.0.0.1:*", in)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tr.Dial(l.Addr(), "x", 1, dialing{&heard{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send([]byte("here")); err != nil {
		t.Fatal(err)
	}
	if !within(t, 10*time.Second, func() bool { return in.last.Load() != nil }) {
		t.Fatal("nothing arrives")
	}
	time.Sleep(600 * time.Millisecond) // some sweeps, which must not end a silent connection
	back := *in.last.Load()
	if err := back.Send([]byte("still there?")); err != nil {
		t.Fatalf("a silent producer was forgotten: %v", err)
	}
	c.Close()
	time.Sleep(time.Second)
	if err := back.Send([]byte("anyone?")); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("a producer that has ended is still known: %v", err)
	}
}

// stuck is a Handler that takes nothing until it is let go.
type stuck struct{ free chan struct{} }

func (s stuck) Message(string, int64, []byte, transport.Conn) { <-s.free }

// TestZMQStuck: a listener whose handler stands still outlives a producer that has sent much and ends, and the
// heartbeats that come after.
func TestZMQStuck(t *testing.T) {
	for _, addr := range []string{"tcp://127.0.0.1:*", "ipc://*"} {
		in := stuck{make(chan struct{})}
		listening := newZMQ(t, transport.Options{Heartbeat: 200 * time.Millisecond})
		l, err := listening.Listen(addr, in)
		if err != nil {
			t.Fatal(err)
		}
		producing, out := newZMQ(t, transport.Options{Heartbeat: 200 * time.Millisecond}), dialing{&heard{}}
		c, err := producing.Dial(l.Addr(), "x", 1, out)
		if err != nil {
			t.Fatal(err)
		}
		if !within(t, 10*time.Second, func() bool { _, n := out.count(); return n == 1 }) {
			t.Fatal("not connected")
		}
		for range 2000 {
			if err := c.Send(make([]byte, 40<<10)); err != nil {
				break // full
			}
		}
		time.Sleep(100 * time.Millisecond)
		producing.Close()
		time.Sleep(600 * time.Millisecond)
		close(in.free)
		if c, err = listening.Dial(l.Addr(), "x", 2, dialing{&heard{}}); err != nil {
			t.Fatal(err)
		}
		if !within(t, 10*time.Second, func() bool { return c.Send([]byte("next")) == nil }) {
			t.Error("nothing is taken any more")
		}
	}
}
