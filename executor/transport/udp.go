package transport

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const udpScheme = "udp://"

const (
	// MaxDatagrams is the size of the largest message that UDP carries, in bytes.
	MaxDatagrams = 256 << 10
	// udpBuffer is what a socket asks the kernel for, in bytes. It may give less.
	udpBuffer = 4 << 20
	// udpHello is how often a connected producer says that it is there.
	udpHello = time.Second
	// udpForget is after how long a silent producer is forgotten.
	udpForget = 10 * time.Second
	// udpPartial bounds the unfinished messages of a listener, in bytes.
	udpPartial = 64 << 20
)

// UDP carries messages in datagrams. It loses messages, and counts them. See doc.go.
type UDP struct {
	mu        sync.Mutex
	listeners map[*udpListener]struct{}
	conns     map[*udpConn]struct{}
	closed    bool
	wg        sync.WaitGroup // the goroutines of dialed connections
	losses    atomic.Int64
}

// NewUDP makes a transport for addresses udp://HOST:PORT.
func NewUDP() *UDP {
	return &UDP{listeners: map[*udpListener]struct{}{}, conns: map[*udpConn]struct{}{}}
}

// Lossy says that single messages may be lost.
func (t *UDP) Lossy() bool { return true }

// Losses is how many messages the ends that this transport holds should have received and did not, as far as
// they know: a message that came later tells of the lost ones before it.
func (t *UDP) Losses() int64 { return t.losses.Load() }

// Listen takes connections at udp://HOST:PORT.
func (t *UDP) Listen(addr string, h Handler) (Listener, error) {
	at, err := hostPort(addr, udpScheme)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	pc, err := net.ListenPacket("udp", at)
	if err != nil {
		return nil, fmt.Errorf("transport: listen %s: %w", addr, err)
	}
	l := newUDPListener(t, pc.(*net.UDPConn), h)
	t.listeners[l] = struct{}{}
	l.wg.Go(l.run)
	l.wg.Go(l.sweep)
	return l, nil
}

// Dial connects to a Listener, as soon as there is one.
func (t *UDP) Dial(addr, channel string, generation int64, h DialHandler) (Conn, error) {
	at, err := hostPort(addr, udpScheme)
	if err != nil {
		return nil, err
	}
	if err := checkChannel(channel); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	c := newUDPConn(t, at, channel, generation, h)
	t.conns[c] = struct{}{}
	t.wg.Go(c.run)
	return c, nil
}

// Close ends all listeners and connections.
func (t *UDP) Close() error {
	t.mu.Lock()
	t.closed = true
	ls, cs := slices.Collect(maps.Keys(t.listeners)), slices.Collect(maps.Keys(t.conns))
	t.mu.Unlock()
	closeAll(cs, ls)
	t.wg.Wait()
	return nil
}
