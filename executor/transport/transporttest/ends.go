package transporttest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/executor/transport"
)

// patience is how long the suite waits for what has to come.
const patience = time.Minute

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := 50 * time.Microsecond; !ok(); pause = min(pause*2, 5*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(pause)
	}
}

// header is what a test message begins with: its number and a checksum.
const header = 8 + 4

// message makes a message of size bytes that check recognizes. Below the header's size it is all zero.
func message(n, size int) []byte {
	b := make([]byte, size)
	if size < header {
		return b
	}
	for i := header; i < size; i += 61 {
		b[i] = byte(n + i)
	}
	binary.LittleEndian.PutUint64(b, uint64(n))
	binary.LittleEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[header:]))
	return b
}

// dense is a message that no compression makes smaller.
func dense(n, size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := header; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	binary.LittleEndian.PutUint64(b, uint64(n))
	binary.LittleEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[header:]))
	return b
}

// check returns the number of a message, and an error if it is not whole.
func check(b []byte) (int, error) {
	if len(b) < header {
		return 0, fmt.Errorf("a message of %d bytes has no number", len(b))
	}
	if binary.LittleEndian.Uint32(b[8:]) != crc32.ChecksumIEEE(b[header:]) {
		return 0, fmt.Errorf("a message of %d bytes is damaged", len(b))
	}
	return int(binary.LittleEndian.Uint64(b)), nil
}

// arrival is a message as a consumer saw it.
type arrival struct {
	generation int64
	n, size    int
	back       transport.Conn
}

// consumer is a Handler that keeps what came, by channel.
type consumer struct {
	mu   sync.Mutex
	got  map[string][]arrival
	errs []error
	echo bool          // answer each message with its number
	gate chan struct{} // if set, each message waits for it to be closed
}

func newConsumer() *consumer { return &consumer{got: map[string][]arrival{}} }

// answers makes the consumer answer each message.
func (c *consumer) answers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.echo = true
}

// waits makes the consumer wait for gate before it takes a message.
func (c *consumer) waits(gate chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate = gate
}

func (c *consumer) Message(channel string, generation int64, msg []byte, back transport.Conn) {
	c.mu.Lock()
	gate, echo := c.gate, c.echo
	c.mu.Unlock()
	if gate != nil {
		<-gate
	}
	n, err := 0, error(nil)
	if len(msg) >= header {
		n, err = check(msg)
	}
	c.mu.Lock()
	if err != nil {
		c.errs = append(c.errs, err)
	}
	c.got[channel] = append(c.got[channel], arrival{generation, n, len(msg), back})
	c.mu.Unlock()
	if echo {
		c.answer(back, message(n, header+n%50))
	}
}

func (c *consumer) answer(back transport.Conn, msg []byte) {
	if err := back.Send(msg); err != nil {
		c.mu.Lock()
		c.errs = append(c.errs, fmt.Errorf("back: %w", err))
		c.mu.Unlock()
	}
}

func (c *consumer) of(channel string) []arrival {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got[channel][:len(c.got[channel]):len(c.got[channel])]
}

// below are the arrivals whose number is less than n: flows sends n itself more than once.
func (c *consumer) below(channel string, n int) []arrival {
	return slices.DeleteFunc(slices.Clone(c.of(channel)), func(a arrival) bool { return a.n >= n })
}

func (c *consumer) failed(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.errs {
		t.Error(err)
	}
}

// producer is a DialHandler that keeps what came back.
type producer struct {
	mu        sync.Mutex
	connected int
	drained   int
	got       []int
	errs      []error
}

func (p *producer) Connected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connected++
}

func (p *producer) Drained() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drained++
}

func (p *producer) Message(msg []byte) {
	n, err := check(msg)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.errs = append(p.errs, err)
	}
	p.got = append(p.got, n)
}

func (p *producer) count() (connected, drained, got int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connected, p.drained, len(p.got)
}

// send sends a message, again and again while there is no room.
func send(t testing.TB, c transport.Conn, msg []byte) {
	t.Helper()
	var err error
	eventually(t, "room for a message", func() bool {
		err = c.Send(msg)
		return !errors.Is(err, transport.ErrFull)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ends are a transport and a listener of it.
type ends struct {
	t  testing.TB
	s  Suite
	tr transport.Transport
	l  transport.Listener
	c  *consumer
}

func (s Suite) start(t testing.TB) *ends {
	t.Helper()
	e := &ends{t: t, s: s, c: newConsumer()}
	e.tr = s.New(t)

	t.Cleanup(e.stop)
	e.listen(s.Addr(t))
	return e
}

func (e *ends) listen(addr string) {
	e.t.Helper()
	l, err := e.tr.Listen(addr, e.c)
	if err != nil {
		e.t.Fatal(err)
	}
	e.l = l
}

func (e *ends) stop() {
	if err := e.tr.Close(); err != nil {
		e.t.Error(err)
	}
}

// dial connects and waits for Connected.
func (e *ends) dial(channel string, generation int64) (transport.Conn, *producer) {
	e.t.Helper()
	p := &producer{}
	c, err := e.tr.Dial(e.l.Addr(), channel, generation, p)
	if err != nil {
		e.t.Fatal(err)
	}
	eventually(e.t, "connected", func() bool { n, _, _ := p.count(); return n > 0 })
	return c, p
}

// ascending reports the first place where arrivals are not numbered from, from+1, ...; a lossy transport may
// leave out numbers.
func (s Suite) ascending(t testing.TB, got []arrival, from int) {
	t.Helper()
	next := from
	for i, a := range got {
		if a.n != next && !(s.Lossy && a.n > next) {
			t.Fatalf("arrival %d has number %d, after %d", i, a.n, next-1)
		}
		next = a.n + 1
	}
}
