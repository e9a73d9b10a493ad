package channel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/executor/transport"
	"sluice/executor/transport/transporttest"
	"sluice/internal/protocol"
	"sluice/operators"
)

// wire drives one end of a channel over a transport: what the transport says is done by one goroutine, in order.
type wire struct {
	box       chan func()
	connected atomic.Int32
	end       func([]byte) // Sender.Message
	come      func()       // Sender.Connected
	full      bool
}

// Connected and Message implement transport.DialHandler, Drained transport.Drainer.
func (w *wire) Connected() {
	w.connected.Add(1)
	w.box <- func() { w.full = false; w.come() }
}
func (w *wire) Message(msg []byte) { w.box <- func() { w.end(msg) } }
func (w *wire) Drained()           { w.box <- func() { w.full = false } }

// taker is a transport.Handler.
type taker struct {
	box  chan func()
	take func(generation int64, msg []byte, back transport.Conn)
}

func (k *taker) Message(_ string, generation int64, msg []byte, back transport.Conn) {
	k.box <- func() { k.take(generation, msg, back) }
}

// TestCuts: over connections that are cut silently, in one direction or both, each row arrives once and in order.
func TestCuts(t *testing.T) {
	const beat = 50 * time.Millisecond
	for _, scheme := range []string{"tcp://", "plain-tcp://"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			tr, err := transport.Open(transport.Options{Heartbeat: beat, HighWater: 8})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			testCuts(t, tr, scheme, 4*beat)
		})
	}
}

const (
	cutEpochs = 1000
	cutRows   = 50 // of each epoch
)

func testCuts(t *testing.T, tr transport.Transport, scheme string, pause time.Duration) {
	schema := intSchema(3)
	in := &taker{box: make(chan func(), 1<<16)}
	l, err := tr.Listen(scheme+"127.0.0.1:*", in)
	if err != nil {
		t.Fatal(err)
	}
	proxy := transporttest.NewProxy(t, strings.TrimPrefix(l.Addr(), scheme))
	s := sender(schema, 1, After(0), protocol.Off(0))
	defer s.Close()
	out := &wire{box: make(chan func(), 1<<16), come: s.Connected}
	failed := make(chan error, 2)
	out.end = func(msg []byte) {
		if err := s.Message(msg); err != nil {
			failed <- err
		}
	}
	conn, err := tr.Dial(scheme+proxy.Addr(), "c", 1, out)
	if err != nil {
		t.Fatal(err)
	}
	over, stop := make(chan struct{}), make(chan struct{})
	var ends sync.WaitGroup
	defer ends.Wait()
	defer close(stop)
	ends.Go(func() {
		if err := produce(s, conn, out, stop); err != nil {
			failed <- err
		}
	})
	ends.Go(func() {
		if err := consume(receiver(schema, After(0), protocol.Off(0)), in, stop); err != nil {
			failed <- err
		} else {
			close(over)
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	cuts := int32(0)
	next := time.NewTicker(pause)
	defer next.Stop()
	deadline := time.After(60 * time.Second)
	for {
		select {
		case err := <-failed:
			t.Fatal(err)
		case <-over:
			if cuts < 3 {
				t.Errorf("%d cuts were made", cuts)
			}
			return
		case <-deadline:
			t.Fatalf("the rows have not arrived; %d cuts, connected %d times", cuts, out.connected.Load())
		case <-next.C:
			if cuts < 8 && out.connected.Load() > cuts {
				cuts++
				which := random.IntN(3)
				proxy.Cut(which != 0, which != 1)
			}
		}
	}
}

// produce drives a Sender, which makes an epoch every two milliseconds.
func produce(s *Sender, conn transport.Conn, w *wire, stop chan struct{}) error {
	schema := intSchema(3)
	epoch := int64(0)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case f := <-w.box:
			f()
		case <-tick.C:
			s.Tick(time.Now().UnixMicro())
			if epoch < cutEpochs {
				epoch++
				rows := rowsOf(schema, epoch, 0, cutRows, false, 0)
				err := s.Rows(epoch, epoch-1, 0, rows)
				err = errors.Join(err, s.Mark(operators.Mark{Epoch: epoch, Prev: epoch - 1, End: epoch == cutEpochs}))
				if err != nil {
					return err
				}
			}
		}
		for !w.full {
			msg, ok := s.Next()
			if !ok {
				break
			}
			if conn.Send(msg) != nil {
				s.Unsend()
				w.full = true
			}
		}
		if err := s.Err(); err != nil {
			return err
		}
	}
}

// consume drives a Receiver until END, and reports the first row that is not the next one.
func consume(r *Receiver, k *taker, stop chan struct{}) error {
	schema := intSchema(3)
	var back transport.Conn
	var wrong error
	next := Position{Epoch: 1}
	k.take = func(generation int64, msg []byte, from transport.Conn) {
		back = from
		wrong = errors.Join(wrong, r.Receive(generation, msg))
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case f := <-k.box:
			f()
		case <-tick.C:
			r.Tick(time.Now().UnixMicro())
		}
		for d, ok := r.Deliver(); ok; d, ok = r.Deliver() {
			switch {
			case d.Epoch != next.Epoch || d.Row != next.Row:
				return fmt.Errorf("epoch %d, row %d where %v was next", d.Epoch, d.Row, next)
			case d.Rows == nil && d.Row != cutRows:
				return fmt.Errorf("epoch %d has %d rows", d.Epoch, d.Row)
			case d.Rows == nil:
				next = Position{Epoch: next.Epoch + 1}
			default:
				to := d.Row + int64(d.Rows.Len)
				if !slices.Equal(texts(d.Rows, false), texts(rowsOf(schema, d.Epoch, d.Row, to, false, 0), false)) {
					return fmt.Errorf("epoch %d, rows from %d on are others", d.Epoch, d.Row)
				}
				next.Row = to
			}
			r.Release(d)
		}
		for msg, ok := r.Next(); ok; msg, ok = r.Next() {
			if back != nil {
				_ = back.Send(msg) // what is lost is said again
			}
		}
		if wrong != nil || r.Ended() {
			return wrong
		}
	}
}
