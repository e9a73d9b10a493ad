package transporttest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/executor/transport"
)

// childEnv tells a child process what to do: "ROLE NAME ADDR".
const childEnv = "SLUICE_TRANSPORT_CHILD"

// Child is another process that uses the transport: the test's own binary.
type Child struct {
	// Name tells the child which transport to make.
	Name string
}

// Main is called by TestMain before anything else. In a child process it does the child's work and does not
// return.
func Main(make func(name string) (transport.Transport, error)) {
	role := strings.Fields(os.Getenv(childEnv))
	if len(role) != 3 {
		return
	}
	tr, err := make(role[1])
	if err == nil {
		switch role[0] {
		case "produce":
			err = produce(tr, role[2])
		case "consume":
			err = consume(tr, role[2])
		}
	}
	fmt.Println("failed:", err)
	os.Exit(1)
}

// produce sends messages without end.
func produce(tr transport.Transport, addr string) error {
	c, err := tr.Dial(addr, "child", int64(os.Getpid()), &producer{})
	if err != nil {
		return err
	}
	fmt.Println("ready", addr)
	for n := 0; ; {
		if c.Send(message(n, 3000)) == nil {
			n++
		}
		time.Sleep(time.Millisecond)
	}
}

// consume answers all that comes.
func consume(tr transport.Transport, addr string) error {
	c := newConsumer()
	c.answers()
	l, err := tr.Listen(addr, c)
	if err != nil {
		return err
	}
	fmt.Println("ready", l.Addr())
	select {}
}

// childProcess is a child that runs.
type childProcess struct {
	cmd    *exec.Cmd
	killed bool
}

// kill ends the child at once.
func (c *childProcess) kill() {
	if c.killed {
		return
	}
	c.killed = true
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// stop makes the child stand still, goOn lets it go on.
func (c *childProcess) stop(t testing.TB) { c.signal(t, syscall.SIGSTOP) }
func (c *childProcess) goOn(t testing.TB) { c.signal(t, syscall.SIGCONT) }

func (c *childProcess) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// start starts a child and returns the address that it uses.
func (c *Child) start(t testing.TB, role, addr string) (at string, child *childProcess) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", childEnv, role, c.Name, addr))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child = &childProcess{cmd: cmd}
	t.Cleanup(child.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ok {
		t.Fatalf("the child said %q: %v", line, err)
	}
	return at, child
}

// testKilledProducer: a producer's process dies; its successor is heard and the others go on.
func testKilledProducer(t testing.TB, s Suite) {
	if s.Child == nil {
		t.Skip("this transport stays inside a process")
	}
	e := s.start(t)
	c, _ := e.dial("other", 1)
	var gone []transport.Conn
	for round := range 2 {
		before := len(e.c.of("child"))
		_, child := s.Child.start(t, "produce", e.l.Addr())
		eventually(t, "messages of the child", func() bool { return len(e.c.of("child")) > before+50 })
		child.kill()
		gone = append(gone, e.c.of("child")[before].back)
		s.flows(t, e, c, "other", 10*round)
	}
	if gone[0] == gone[1] {
		t.Error("two processes have one back")
	}
	for range 200 {
		for _, b := range gone {
			b.Send(message(1, 1000))
		}
		time.Sleep(100 * time.Microsecond)
	}
	s.flows(t, e, c, "other", 100)
	var of []arrival
	for _, a := range e.c.of("child") {
		if len(of) > 0 && of[0].generation != a.generation {
			s.ascending(t, of, 0)
			of = nil
		}
		of = append(of, a)
	}
	s.ascending(t, of, 0)
}

// testKilledConsumer: a consumer's process dies and another listens at its address.
func testKilledConsumer(t testing.TB, s Suite) {
	if s.Child == nil {
		t.Skip("this transport stays inside a process")
	}
	tr := s.New(t)
	t.Cleanup(func() { tr.Close() })
	addr, child := s.Child.start(t, "consume", s.Addr(t))
	p := &producer{}
	c, err := tr.Dial(addr, "x", 1, p)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		eventually(t, "connected to the child", func() bool { n, _, _ := p.count(); return n > round })
		_, _, before := p.count()
		eventually(t, "answers of the child", func() bool {
			c.Send(message(round, 1000))
			_, _, n := p.count()
			return n > before+20
		})
		child.kill()
		if round < 2 {
			_, child = s.Child.start(t, "consume", addr)
		}
	}
}
