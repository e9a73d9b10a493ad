package transport_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pebbe/zmq4"

	"sluice/executor/transport"
)

// counter is a Handler and a DialHandler that counts.
type counter struct {
	n         atomic.Int64
	want      int64 // when so many have come, all is closed
	all       chan struct{}
	connected chan struct{}
	room      chan struct{}
}

func newCounter() *counter {
	return &counter{all: make(chan struct{}), connected: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func (c *counter) Message(string, int64, []byte, transport.Conn) {
	if c.n.Add(1) == c.want {
		close(c.all)
	}
}

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

// carry sends n messages of size bytes over one connection of tr, and returns how long it took until they had
// arrived.
func carry(b *testing.B, tr transport.Transport, addr string, n, size int) time.Duration {
	defer tr.Close()
	c := newCounter()
	c.want = int64(n)
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
	start := time.Now()
	for range n {
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
	<-c.all
	return time.Since(start)
}

// carryRaw does the same with two bare sockets: what libzmq gives to Go without anything around it.
func carryRaw(b *testing.B, from, to zmq4.Type, addr string, n, size int) time.Duration {
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
	in.SetLinger(0)
	out.SetLinger(0)
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
	time.Sleep(20 * time.Millisecond) // the connection, which the transport has before it begins
	msg := make([]byte, size)
	done := make(chan error, 1)
	start := time.Now()
	go func() {
		for range n {
			if _, err := in.RecvMessageBytes(0); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range n {
		if _, err := out.SendBytes(msg, 0); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// benchCount is how many messages of size bytes a round sends.
func benchCount(size int) int { return min(100000, 64<<20/size) }

// BenchmarkZMQ compares the transport with bare sockets. Rounds of each follow each other, so that what else the
// machine does meets both alike, and the best round of each counts: of-push-pull and of-dealer-router are the
// transport's rate over theirs, in percent.
func BenchmarkZMQ(b *testing.B) {
	for _, addr := range []string{"tcp://127.0.0.1:*", "ipc://*"} {
		for _, size := range []int{100, 4 << 10, 64 << 10, 256 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", addr[:3], size), func(b *testing.B) {
				n := benchCount(size)
				var ours, push, dealer time.Duration
				for b.Loop() {
					tr, err := transport.NewZMQ(transport.Options{})
					if err != nil {
						b.Fatal(err)
					}
					ours = best(ours, carry(b, tr, addr, n, size))
					push = best(push, carryRaw(b, zmq4.PUSH, zmq4.PULL, addr, n, size))
					dealer = best(dealer, carryRaw(b, zmq4.DEALER, zmq4.ROUTER, addr, n, size))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(n*size)/1e6/ours.Seconds(), "MB/s")
				b.ReportMetric(100*push.Seconds()/ours.Seconds(), "%of-push-pull")
				b.ReportMetric(100*dealer.Seconds()/ours.Seconds(), "%of-dealer-router")
			})
		}
	}
}

func best(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// BenchmarkTransports gives the rates of the others.
func BenchmarkTransports(b *testing.B) {
	keys, err := transport.GenerateKeys()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name, addr string
		keys       *transport.Keys
	}{
		{"memory", "memory://*", nil},
		{"plain-tcp", "plain-tcp://127.0.0.1:*", nil},
		{"curve", "tcp://127.0.0.1:*", keys},
		{"lz4+tcp", "lz4+tcp://127.0.0.1:*", nil},
	} {
		for _, size := range []int{100, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", c.name, size), func(b *testing.B) {
				n := benchCount(size)
				var ours time.Duration
				for b.Loop() {
					tr, err := transport.Open(transport.Options{Keys: c.keys})
					if err != nil {
						b.Fatal(err)
					}
					ours = best(ours, carry(b, tr, c.addr, n, size))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(n*size)/1e6/ours.Seconds(), "MB/s")
			})
		}
	}
}
