package transport

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// udpListener is one socket. One goroutine receives for all connections, and each connection has one that
// sends back.
type udpListener struct {
	t      *UDP
	s      *net.UDPConn
	h      Handler
	number uint64 // tells the dialers that this is not the listener of before
	done   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup

	mu      sync.Mutex
	peers   map[uint64]*udpPeer
	ended   bool
	partial int // bytes of unfinished messages
}

// udpPeer is the consumer's side of a connection.
type udpPeer struct {
	l          *udpListener
	number     uint64
	from       netip.AddrPort
	channel    string
	generation int64
	out        queue
	gone       chan struct{}
	losses     atomic.Int64
	heard      time.Time // under l.mu
	partial    int       // bytes of the unfinished message; under l.mu
	a          assembly  // the receiving goroutine's own
}

func newUDPListener(t *UDP, s *net.UDPConn, h Handler) *udpListener {
	s.SetReadBuffer(udpBuffer)
	s.SetWriteBuffer(udpBuffer)
	return &udpListener{
		t: t, s: s, h: h, number: rand.Uint64() | 1,
		done: make(chan struct{}), peers: map[uint64]*udpPeer{},
	}
}

func (l *udpListener) Addr() string { return udpScheme + l.s.LocalAddr().String() }

func (l *udpListener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.s.Close()
		l.mu.Lock()
		l.ended = true
		for _, p := range l.peers {
			l.forget(p)
		}
		l.mu.Unlock()
	})
	l.wg.Wait()
	l.t.mu.Lock()
	delete(l.t.listeners, l)
	l.t.mu.Unlock()
	return nil
}

func (l *udpListener) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// forget ends a connection. The caller holds l.mu.
func (l *udpListener) forget(p *udpPeer) {
	p.out.close()
	close(p.gone)
	l.partial -= p.partial
	delete(l.peers, p.number)
}

// sweep forgets the producers that have been silent for long.
func (l *udpListener) sweep() {
	tick := time.NewTicker(udpHello)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case now := <-tick.C:
			l.mu.Lock()
			for _, p := range l.peers {
				if now.Sub(p.heard) > udpForget {
					l.forget(p)
				}
			}
			l.mu.Unlock()
		}
	}
}

func (l *udpListener) run() {
	buf := make([]byte, udpLargest)
	for {
		n, from, err := l.s.ReadFromUDPAddrPort(buf)
		if l.closed() {
			return
		}
		if err != nil { // of one datagram
			continue
		}
		if kind, number, rest, ok := parseUDPHead(buf[:n]); ok {
			l.take(kind, number, rest, from)
		}
	}
}

// take handles a datagram, which may be anything.
func (l *udpListener) take(kind byte, number uint64, rest []byte, from netip.AddrPort) {
	l.mu.Lock()
	p := l.peers[number]
	if p != nil && p.from != from {
		p = nil // somebody else's, or a producer that has moved: it has to say hello
	}
	if p != nil {
		p.heard = time.Now()
	}
	if p != nil && kind == udpBye {
		l.forget(p)
	}
	l.mu.Unlock()
	switch {
	case kind == kindHello:
		l.greet(p, number, rest, from)
	case kind == udpData && p == nil:
		l.s.WriteToUDPAddrPort(appendUDPHead(nil, kindWho, number), from)
	case kind == udpData:
		l.data(p, rest)
	}
}

func (l *udpListener) greet(p *udpPeer, number uint64, hello []byte, from netip.AddrPort) {
	channel, generation, ok := parseHello(hello)
	if !ok || p == nil && !l.add(number, channel, generation, from) {
		return
	}
	l.s.WriteToUDPAddrPort(binary.BigEndian.AppendUint64(appendUDPHead(nil, kindWelcome, number), l.number), from)
}

// add makes a peer, unless there are too many or another one has its number.
func (l *udpListener) add(number uint64, channel string, generation int64, from netip.AddrPort) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.peers[number] != nil || len(l.peers) >= maxPeers {
		return false
	}
	p := &udpPeer{
		l: l, number: number, from: from, channel: channel, generation: generation,
		gone: make(chan struct{}), heard: time.Now(),
	}
	p.out.init(0)
	l.peers[number] = p
	l.wg.Go(p.send)
	return true
}

func (l *udpListener) data(p *udpPeer, rest []byte) {
	f, ok := parseFragment(rest)
	if !ok {
		return
	}
	l.mu.Lock()
	if l.peers[p.number] != p {
		l.mu.Unlock()
		return
	}
	msg, whole, lost := p.a.add(f, udpPartial-l.partial+p.partial)
	l.partial += len(p.a.msg) - p.partial
	p.partial = len(p.a.msg)
	l.mu.Unlock()
	if !whole {
		return
	}
	p.losses.Add(int64(lost))
	l.t.losses.Add(int64(lost))
	l.h.Message(p.channel, p.generation, msg, p)
}

func (p *udpPeer) Send(msg []byte) error {
	if len(msg) > MaxDatagrams {
		return ErrTooLarge
	}
	_, err := p.out.push(msg)
	return err
}

// Losses is how many messages of the producer did not come, as far as is known.
func (p *udpPeer) Losses() int64 { return p.losses.Load() }

// Close makes Send refuse; the producer's messages still arrive.
func (p *udpPeer) Close() error {
	p.out.close()
	return nil
}

func (p *udpPeer) send() {
	to := net.UDPAddrFromAddrPort(p.from)
	buf := make([]byte, 0, udpDataHead+udpFragment)
	var msgs [][]byte
	var seq uint64
	for {
		select {
		case <-p.gone:
			return
		case <-p.out.wake:
		}
		msgs = p.out.take(msgs)
		for i, msg := range msgs {
			buf = sendUDP(p.l.s, to, buf, p.number, seq, msg)
			seq++
			msgs[i] = nil
			p.out.release(len(msg), 1)
		}
	}
}
