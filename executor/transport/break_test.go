package transport_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/executor/transport"
	"sluice/executor/transport/transporttest"
)

// quick are the beats of tests that wait for a connection to be given up.
const (
	quick      = 100 * time.Millisecond
	quickBound = 6 * quick
)

// longest is waited for what must happen; what happens by itself on a busy machine alone happens so often in a row at most.
const (
	longest   = time.Minute
	mostTries = 6
)

// TestCut: a connection on which nothing comes any more, though it is not closed, is given up after some beats, and
// made again.
func TestCut(t *testing.T) {
	for _, name := range []string{"zmq-quick", "tcp-quick"} {
		for _, cut := range []struct{ down, back bool }{{true, true}, {true, false}, {false, true}} {
			t.Run(fmt.Sprintf("%s,down=%v,back=%v", name, cut.down, cut.back), func(t *testing.T) {
				t.Parallel()
				testCut(t, name, cut.down, cut.back)
			})
		}
	}
}

func testCut(t *testing.T, name string, down, back bool) {
	tr, err := newTransport(name)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	scheme := "tcp://"
	if name == "tcp-quick" {
		scheme = "plain-tcp://"
	}
	in, out := &backs{}, dialing{&heard{}}
	l, err := tr.Listen(scheme+"127.0.0.1:*", in)
	if err != nil {
		t.Fatal(err)
	}
	p := transporttest.NewProxy(t, strings.TrimPrefix(l.Addr(), scheme))
	c, err := tr.Dial(scheme+p.Addr(), "x", 1, out)
	if err != nil {
		t.Fatal(err)
	}
	connected := func() int { _, n := out.count(); return n }
	known := 0
	for range 2 {
		// While all is well nothing happens. A machine that does not run this process for some beats makes an exception.
		for tries := 1; ; tries++ {
			if !within(t, longest, func() bool { return connected() > known }) {
				t.Fatalf("connected %d times, and not again", known)
			}
			n, before := connected(), in.last.Load()
			if !within(t, longest, func() bool { c.Send([]byte("more")); return in.last.Load() != before }) {
				t.Fatal("nothing arrives")
			}
			time.Sleep(2 * quickBound)
			now := connected()
			if now == n {
				known = n
				break
			}
			if known = now - 1; tries == mostTries {
				t.Fatalf("a good connection is given up each time; connected %d times", now)
			}
		}
		old := *in.last.Load()
		p.Cut(down, back)
		at := time.Now()
		if !within(t, longest, func() bool { return connected() > known }) {
			t.Fatal("not connected again")
		}
		t.Logf("connected again after %v; the bound is %v", time.Since(at), quickBound)
		if !within(t, longest, func() bool { return errors.Is(old.Send(nil), transport.ErrClosed) }) {
			t.Error("the listener knows the connection still")
		}
	}
}

// TestStopped: processes that stand still are given up, and connected again when they go on.
func TestStopped(t *testing.T) {
	for name, addr := range map[string]string{"zmq-quick": "tcp://127.0.0.1:*", "tcp-quick": "plain-tcp://127.0.0.1:*"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := suite(name, addr)
			s.Child = &transporttest.Child{Name: name}
			transporttest.Stopped(t, s, quickBound)
		})
	}
}

// backs is a Handler that keeps the last back.
type backs struct {
	last atomic.Pointer[transport.Conn]
}

func (b *backs) Message(_ string, _ int64, _ []byte, back transport.Conn) { b.last.Store(&back) }

// TestZMQForgets: a listener forgets a producer that has ended, also if nothing is sent to it.
func TestZMQForgets(t *testing.T) {
	for tries, pause := 1, time.Second; ; tries, pause = tries+1, 2*pause {
		err := zmqForgets(t, pause)
		if err == nil {
			return
		}
		if tries == 5 {
			t.Fatal(err)
		}
		t.Logf("on a machine that is not busy this is wrong: %v", err)
	}
}

// zmqForgets tells what is wrong with a listener that has so long to forget a producer; nothing tells it to look meanwhile.
func zmqForgets(t *testing.T, pause time.Duration) error {
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
	if !within(t, longest, func() bool { return in.last.Load() != nil }) {
		t.Fatal("nothing arrives")
	}
	time.Sleep(600 * time.Millisecond) // some sweeps, which must not end a silent connection
	back := *in.last.Load()
	if err := back.Send([]byte("still there?")); err != nil {
		return fmt.Errorf("a silent producer was forgotten: %w", err)
	}
	c.Close()
	time.Sleep(pause)
	if err := back.Send([]byte("anyone?")); !errors.Is(err, transport.ErrClosed) {
		return fmt.Errorf("a producer that has ended is still known after %v: %w", pause, err)
	}
	return nil
}

// stuckEnv, an address, makes a process of the test's binary try what libzmq makes of connections that break while
// nothing is read from them.
const stuckEnv = "SLUICE_TRANSPORT_STUCK"

// TestZMQStuck: a process whose handlers stand still outlives peers that have sent much, more than the high-water
// marks, and end. With ZMTP's heartbeats on libzmq (4.3) ends it by an assertion.
func TestZMQStuck(t *testing.T) {
	for _, addr := range []string{"tcp://127.0.0.1:*", "ipc://*"} {
		t.Run(addr[:3], func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), stuckEnv+"="+addr)
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != "survived\n" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// stuckMain does the child's work, and does not return then.
func stuckMain() {
	addr := os.Getenv(stuckEnv)
	if addr == "" {
		return
	}
	const rounds, abreast = 6, 4
	for range rounds {
		var wg sync.WaitGroup
		for range abreast {
			wg.Go(func() { try(stuckListener(addr)) })
			wg.Go(func() { try(stuckProducer(addr)) })
		}
		wg.Wait()
	}
	fmt.Println("survived")
	os.Exit(0)
}

func try(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// lowWater are few messages and quick beats.
var lowWater = transport.Options{HighWater: 8, Heartbeat: 20 * time.Millisecond}

// fill sends until nothing more is taken for a while.
func fill(c transport.Conn) {
	for refused := 0; refused < 10; {
		if c.Send(make([]byte, 40<<10)) != nil {
			refused++
			time.Sleep(time.Millisecond)
		}
	}
}

// stuckListener: the producer of a listener that takes nothing ends.
func stuckListener(addr string) error {
	listening, err := transport.NewZMQ(lowWater)
	if err != nil {
		return err
	}
	defer listening.Close()
	in := stuck{make(chan struct{}), make(chan transport.Conn, 1)}
	l, err := listening.Listen(addr, in)
	if err != nil {
		return err
	}
	producing, err := transport.NewZMQ(lowWater)
	if err != nil {
		return err
	}
	c, err := producing.Dial(l.Addr(), "x", 1, stuckDial{in.free})
	if err != nil {
		return err
	}
	fill(c)
	producing.Close()
	time.Sleep(150 * time.Millisecond)
	close(in.free)
	if c, err = listening.Dial(l.Addr(), "x", 2, stuckDial{in.free}); err != nil {
		return err
	}
	return in.answers(c)
}

// stuckProducer: the listener of a producer that takes nothing ends.
func stuckProducer(addr string) error {
	producing, err := transport.NewZMQ(lowWater)
	if err != nil {
		return err
	}
	defer producing.Close()
	listening, err := transport.NewZMQ(lowWater)
	if err != nil {
		return err
	}
	in, open := stuckDial{make(chan struct{})}, stuck{make(chan struct{}), make(chan transport.Conn, 1)}
	close(open.free)
	l, err := listening.Listen(addr, open)
	if err != nil {
		return err
	}
	c, err := producing.Dial(l.Addr(), "x", 1, in)
	if err != nil {
		return err
	}
	if err := open.answers(c); err != nil {
		return err
	}
	fill(<-open.back)
	listening.Close()
	time.Sleep(150 * time.Millisecond)
	close(in.free)
	if listening, err = transport.NewZMQ(lowWater); err != nil {
		return err
	}
	defer listening.Close()
	if l, err = listening.Listen(addr, open); err != nil {
		return err
	}
	if c, err = producing.Dial(l.Addr(), "x", 2, in); err != nil {
		return err
	}
	return open.answers(c)
}

// stuck is a Handler that takes nothing until it is free, stuckDial a DialHandler.
type (
	stuck struct {
		free chan struct{}
		back chan transport.Conn // has room for one
	}
	stuckDial struct{ free chan struct{} }
)

// Message implements transport.Handler.
func (s stuck) Message(_ string, _ int64, _ []byte, back transport.Conn) {
	<-s.free
	select {
	case s.back <- back:
	default:
	}
}

// Message implements transport.DialHandler.
func (s stuckDial) Message([]byte) { <-s.free }

// Connected implements transport.DialHandler.
func (s stuckDial) Connected() {}

// answers waits until a message of c has come.
func (s stuck) answers(c transport.Conn) error {
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(time.Millisecond) {
		_ = c.Send([]byte("next")) // it may be full
		if len(s.back) > 0 {
			return nil
		}
	}
	return errors.New("nothing is taken any more")
}
