package transport

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// udpConn is the producer's side. One goroutine says hello and sends, another one receives.
type udpConn struct {
	t      *UDP
	addr   string
	h      DialHandler
	number uint64
	hello  []byte
	out    queue
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	losses atomic.Int64

	events chan uint64 // from the receiving goroutine: the listener's number, or zero: it does not know us
}

func newUDPConn(t *UDP, addr, channel string, generation int64, h DialHandler) *udpConn {
	number := rand.Uint64()
	c := &udpConn{
		t: t, addr: addr, h: h, number: number, events: make(chan uint64),
		hello: appendHello(appendUDPHead(nil, kindHello, number), channel, generation),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.out.init(0)
	return c
}

func (c *udpConn) Send(msg []byte) error {
	if len(msg) > MaxDatagrams {
		return ErrTooLarge
	}
	_, err := c.out.push(msg)
	return err
}

// Losses is how many messages of the consumer did not come, as far as is known.
func (c *udpConn) Losses() int64 { return c.losses.Load() }

func (c *udpConn) Close() error {
	c.out.close()
	c.cancel()
	return nil
}

func (c *udpConn) run() {
	defer func() {
		c.t.mu.Lock()
		delete(c.t.conns, c)
		c.t.mu.Unlock()
	}()
	for c.ctx.Err() == nil {
		d := net.Dialer{Timeout: dialTimeout}
		nc, err := d.DialContext(c.ctx, "udp", c.addr)
		if err == nil {
			c.session(nc.(*net.UDPConn))
		}
		select { // a name that has no address yet
		case <-c.ctx.Done():
		case <-time.After(reconnectMax):
		}
	}
}

// session uses one socket until the connection is closed.
func (c *udpConn) session(s *net.UDPConn) {
	s.SetReadBuffer(udpBuffer)
	s.SetWriteBuffer(udpBuffer)
	var wg sync.WaitGroup
	wg.Go(func() { c.receive(s) })
	c.send(s)
	s.Write(appendUDPHead(nil, udpBye, c.number))
	s.Close()
	wg.Wait()
}

// send says hello until it is answered, and sometimes afterwards; what waits is sent while it has been answered.
func (c *udpConn) send(s *net.UDPConn) {
	var peer uint64 // the listener's number, zero while there is none
	var wake chan struct{}
	var msgs [][]byte
	var seq uint64
	pause := reconnectMin
	timer := time.NewTimer(0)
	defer timer.Stop()
	buf := make([]byte, 0, udpDataHead+udpFragment)
	for {
		select {
		case <-c.ctx.Done():
			return
		case n := <-c.events:
			if n == 0 && peer != 0 {
				pause = reconnectMin
				timer.Reset(0)
			}
			peer = n
			wake = nil
			if peer == 0 {
				continue
			}
			wake = c.out.wake
			signal(wake) // what came while nobody listened
		case <-timer.C:
			s.Write(c.hello) // an error is that nobody listens: the next hello may succeed
			pause = min(2*pause, reconnectMax)
			if peer != 0 {
				pause = udpHello
			}
			timer.Reset(pause)
		case <-wake:
			msgs = c.out.take(msgs)
			for i, msg := range msgs {
				buf = sendUDP(s, nil, buf, c.number, seq, msg)
				seq++
				msgs[i] = nil
				if c.out.release(len(msg), 1) {
					drained(c.h)
				}
				if c.ctx.Err() != nil {
					return
				}
			}
		}
	}
}

// sendUDP sends a message in as many datagrams as it takes. A datagram that cannot be sent is lost like others.
func sendUDP(s *net.UDPConn, to *net.UDPAddr, buf []byte, number, seq uint64, msg []byte) []byte {
	for i := range fragments(len(msg)) {
		buf = appendFragment(buf[:0], number, seq, msg, i)
		if to == nil {
			s.Write(buf)
			continue
		}
		s.WriteToUDP(buf, to)
	}
	return buf
}

// receive takes the listener's datagrams until the socket is closed.
func (c *udpConn) receive(s *net.UDPConn) {
	var a assembly
	var peer uint64
	buf := make([]byte, udpLargest)
	for {
		n, err := s.Read(buf)
		if c.ctx.Err() != nil {
			return
		}
		if err != nil { // nobody listens there, says the other machine
			if peer != 0 {
				peer = 0
				c.event(0)
			}
			continue
		}
		kind, number, rest, ok := parseUDPHead(buf[:n])
		if !ok || number != c.number {
			continue
		}
		switch {
		case kind == kindWho && peer != 0:
			peer = 0
			c.event(0)
		case kind == kindWelcome && len(rest) == 8:
			listener := binary.BigEndian.Uint64(rest)
			if listener == peer || listener == 0 {
				continue
			}
			peer = listener
			a = assembly{}
			c.event(peer)
			c.h.Connected()
		case kind == udpData && peer != 0:
			c.take(&a, rest)
		}
	}
}

func (c *udpConn) take(a *assembly, rest []byte) {
	f, ok := parseFragment(rest)
	if !ok {
		return
	}
	msg, whole, lost := a.add(f, MaxDatagrams)
	if whole {
		c.losses.Add(int64(lost))
		c.t.losses.Add(int64(lost))
		c.h.Message(msg)
	}
}

func (c *udpConn) event(peer uint64) {
	select {
	case c.events <- peer:
	case <-c.ctx.Done():
	}
}

func parseUDPHead(b []byte) (kind byte, number uint64, rest []byte, ok bool) {
	if len(b) < udpHead {
		return 0, 0, nil, false
	}
	return b[0], binary.BigEndian.Uint64(b[1:]), b[udpHead:], true
}
