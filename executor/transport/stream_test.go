package transport_test

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/executor/transport"
)

func hostileTCP(t testing.TB, addr string) {
	t.Helper()
	framed := func(msgs ...string) []byte {
		var b []byte
		for _, m := range msgs {
			b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
			b = append(b, m...)
		}
		return b
	}
	hello := "\x02" + strings.Repeat("\x00", 8) + "good"
	writeRaw(t, addr, noise(0, 1, 3, 4, 5, 100, 100000)...)
	writeRaw(t, addr,
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		[]byte("\xff\xff\xff\xff"),
		framed(""), framed("\x01"), framed("\x01"+hello[1:], "data"),
		framed("\x02"+strings.Repeat("x", 5000), "data"),
		[]byte(strings.Repeat("\x80\x00\x00\x00", 50000)),
		append(framed(hello), strings.Repeat("\x80\x00\x00\x00", 50000)...),
		append(framed(hello), "\xff\xff\xff\xffdata"...),
		append(framed(hello), "\x04\x00\x00\x00less than that"...),
		framed(hello)[:10],
	)
}

func hostileUDP(t testing.TB, addr string) {
	t.Helper()
	c, err := net.Dial("udp", strings.TrimPrefix(addr, "udp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, b := range noise(0, 1, 8, 9, 10, 24, 25, 1400, 9000) {
		for _, kind := range []string{"H", "D", "W", "?", "X", "B"} {
			if len(b) > 0 {
				b[0] = kind[0]
			}
			c.Write(b)
		}
	}
}

// TestUDPLosses: what was sent has arrived, or is counted as lost.
func TestUDPLosses(t *testing.T) {
	tr := transport.NewUDP()
	defer tr.Close()
	if !transport.Lossy(tr) || transport.Lossy(transport.NewMemory()) {
		t.Error("Lossy does not tell UDP from memory")
	}
	in := &slowCounter{counter: newCounter()}
	l, err := tr.Listen("udp://127.0.0.1:*", in)
	if err != nil {
		t.Fatal(err)
	}
	out := newCounter()
	c, err := tr.Dial(l.Addr(), "x", 1, dialed{out})
	if err != nil {
		t.Fatal(err)
	}
	sent := int64(0)
	send := func(size int) {
		if c.Send(make([]byte, size)) == nil {
			sent++
		}
	}
	send(10)
	if !within(t, 10*time.Second, func() bool { return in.n.Load() == 1 }) {
		t.Fatal("nothing arrives")
	}
	for range 3000 {
		send(20000)
	}
	if !within(t, 20*time.Second, func() bool {
		send(10)
		time.Sleep(5 * time.Millisecond)
		return in.n.Load()+tr.Losses() == sent
	}) {
		t.Errorf("%d sent, %d arrived, %d lost", sent, in.n.Load(), tr.Losses())
	}
	if tr.Losses() == 0 {
		t.Error("nothing was lost, though much was sent to a slow consumer")
	}
}

// slowCounter is a Handler that is slower than the sender.
type slowCounter struct{ *counter }

func (s *slowCounter) Message(string, int64, []byte, transport.Conn) {
	s.n.Add(1)
	time.Sleep(200 * time.Microsecond)
}
