package transport_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pebbe/zmq4"

	"sluice/executor/transport"
)

// counter is a Handler and a DialHandler that counts.
type counter struct {
	n         atomic.Int64
	connected chan struct{}
	room      chan struct{}
}

func newCounter() *counter {
	return &counter{connected: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func (c *counter) Message(string, int64, []byte, transport.Conn) { c.n.Add(1) }

type dialed struct{ *counter }

func (d dialed) Connected() {
	select {
	case d.connected <- struct{}{}:
	default:
	}
}
func (d dialed) Message([]byte) {}
func (d dialed) Drained() {
	select {
	case d.room <- struct{}{}:
	default:
	}
}

func (c *counter) await(n int) {
	for c.n.Load() < int64(n) {
		runtime.Gosched()
	}
}

// benchTransport sends b.N messages of size bytes over one connection and waits until they have arrived.
func benchTransport(b *testing.B, tr transport.Transport, addr string, size int) {
	defer tr.Close()
	c := newCounter()
	l, err := tr.Listen(addr, c)
	if err != nil {
		b.Fatal(err)
	}
	conn, err := tr.Dial(l.Addr(), "bench", 1, dialed{c})
	if err != nil {
		b.Fatal(err)
	}
	<-c.connected
	msg := make([]byte, size)
	b.SetBytes(int64(size))
	b.ResetTimer()
	for range b.N {
		for {
			err := conn.Send(msg)
			if err == nil {
				break
			}
			if !errors.Is(err, transport.ErrFull) {
				b.Fatal(err)
			}
			<-c.room
		}
	}
	c.await(b.N)
}

// benchRaw does the same with two bare sockets: what libzmq gives to Go without anything around it.
func benchRaw(b *testing.B, from, to zmq4.Type, addr string, size int) {
	ctx, err := zmq4.NewContext()
	if err != nil {
		b.Fatal(err)
	}
	defer ctx.Term()
	in, err := ctx.NewSocket(to)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	out, err := ctx.NewSocket(from)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	for _, s := range []*zmq4.Socket{in, out} {
		s.SetLinger(0)
		s.SetSndhwm(1000)
		s.SetRcvhwm(1000)
	}
	if err := in.Bind(addr); err != nil {
		b.Fatal(err)
	}
	at, err := in.GetLastEndpoint()
	if err != nil {
		b.Fatal(err)
	}
	if err := out.Connect(at); err != nil {
		b.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	msg := make([]byte, size)
	done := make(chan error, 1)
	b.SetBytes(int64(size))
	b.ResetTimer()
	go func() {
		for range b.N {
			if _, err := in.RecvMessageBytes(0); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range b.N {
		if _, err := out.SendBytes(msg, 0); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

var benchSizes = []int{100, 4 << 10, 64 << 10, 256 << 10, 1 << 20}

func benchAddrs(b *testing.B) []struct{ name, addr string } {
	return []struct{ name, addr string }{{"tcp", "tcp://127.0.0.1:*"}, {"ipc", "ipc://*"}}
}

// BenchmarkZMQ compares the transport with bare sockets, in one run.
func BenchmarkZMQ(b *testing.B) {
	for _, a := range benchAddrs(b) {
		for _, size := range benchSizes {
			name := fmt.Sprintf("%s/%d/", a.name, size)
			b.Run(name+"push-pull", func(b *testing.B) { benchRaw(b, zmq4.PUSH, zmq4.PULL, a.addr, size) })
			b.Run(name+"dealer-router", func(b *testing.B) { benchRaw(b, zmq4.DEALER, zmq4.ROUTER, a.addr, size) })
			b.Run(name+"transport", func(b *testing.B) {
				tr, err := transport.NewZMQ(transport.Options{})
				if err != nil {
					b.Fatal(err)
				}
				benchTransport(b, tr, a.addr, size)
			})
		}
	}
}
