package transporttest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between producers and a listener over TCP, and can lose what it should forward, as a network
// does that has gone: without closing anything.
type Proxy struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	links []*link
}

// link is a connection through a Proxy.
type link struct {
	from, to         net.Conn // the producer's, the listener's
	cutDown, cutBack atomic.Bool
}

// NewProxy forwards to HOST:PORT until the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, to: to}
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
			k := &link{from: c, to: d}
			p.mu.Lock()
			p.links = append(p.links, k)
			p.mu.Unlock()
			wg.Go(func() { forward(c, d, &k.cutDown) })
			wg.Go(func() { forward(d, c, &k.cutBack) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, k := range p.links {
			k.from.Close()
			k.to.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

// Addr is where producers connect, HOST:PORT.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Cut makes the connections that there are now lose all that goes to the listener (down), or comes from it (back),
// for ever. They stay open, and neither side hears of the other side's end.
func (p *Proxy) Cut(down, back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.links {
		if down {
			k.cutDown.Store(true)
		}
		if back {
			k.cutBack.Store(true)
		}
	}
}

func forward(from, to net.Conn, cut *atomic.Bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		switch {
		case err != nil && !cut.Load():
			to.Close()
			return
		case err != nil:
			return
		case !cut.Load():
			to.Write(buf[:n])
		}
	}
}
