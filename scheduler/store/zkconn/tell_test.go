package zkconn

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"sluice/internal/zktest"
)

func TestMain(m *testing.M) { os.Exit(zktest.Main(m)) }

// text is a log that is read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// await waits for a line.
func (x *text) await(t *testing.T, pattern string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if regexp.MustCompile(pattern).MatchString(x.String()) {
			return
		}
	}
	t.Fatalf("the log has no %q:\n%s", pattern, x)
}

// TestTells: what happens to a connection is logged, and no line each second of a long break.
func TestTells(t *testing.T) {
	p := zktest.NewProxy(t, zktest.Shared(t))
	said := &text{}
	const session = 2 * time.Second // for a machine that stands still for a while
	c, err := Open([]string{p.Addr()}, Options{Session: session, Auth: "sluice:secret", Log: slog.New(slog.NewTextHandler(said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := Read(ctx, c, func(z *zk.Conn) (bool, error) { there, _, err := z.Exists("/"); return there, err })
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	p.Break() // is of no interest
	if err := read(); err != nil {
		t.Fatal(err)
	}
	if s := said.String(); strings.Contains(s, "WARN") {
		t.Errorf("a short break is told of:\n%s", s)
	}
	p.Cut()
	said.await(t, `level=WARN msg="zookeeper: no server serves this client[^\n]*servers=`+p.Addr())
	p.Heal()
	if err := read(); err != nil {
		t.Fatal(err)
	}
	said.await(t, `level=INFO msg="zookeeper: connected again"`)
	p.Cut()
	time.Sleep(2 * session) // this is how long it is away, not a wait for something
	p.Heal()
	if err := read(); err != nil {
		t.Fatal(err)
	}
	said.await(t, `level=WARN msg="zookeeper: the session has expired`)
	if strings.Contains(said.String(), "secret") {
		t.Errorf("the password is logged:\n%s", said)
	}
}

// TestRepeats: what the library says again and again is logged once a minute.
func TestRepeats(t *testing.T) {
	said := &text{}
	tell := newTeller(slog.New(slog.NewTextHandler(said, nil)), []string{"a:1"}, time.Hour)
	defer tell.close()
	for i := range 5 {
		tell.Printf("failed to connect to %s", "a:1")
		tell.Printf("other %d", i)
	}
	if s := said.String(); strings.Count(s, "failed to connect") != 1 || strings.Count(s, "other") != 5 {
		t.Errorf("%s", s)
	}
	for text := range tell.texts {
		tell.texts[text] = time.Now().Add(-2 * tellAgain)
	}
	tell.Printf("failed to connect to %s", "a:1")
	if s := said.String(); strings.Count(s, "failed to connect") != 2 {
		t.Errorf("after a minute:\n%s", s)
	}
	for i := range 3 * mostTexts {
		tell.Printf("text %d", i)
	}
	if n := len(tell.texts); n > mostTexts {
		t.Errorf("%d texts are remembered", n)
	}
}

// TestWaitsAreTold: that no server can be reached is told after a while, and again.
func TestWaitsAreTold(t *testing.T) {
	said := &text{}
	tell := newTeller(slog.New(slog.NewTextHandler(said, nil)), []string{"a:1", "b:2"}, 50*time.Millisecond)
	said.await(t, `servers=a:1,b:2 for=`)
	tell.tell()
	if n := strings.Count(said.String(), "WARN"); n != 2 {
		t.Errorf("told %d times: %s", n, said)
	}
	tell.event(zk.StateHasSession)
	tell.event(zk.StateDisconnected)
	tell.close()
	before := strings.Count(said.String(), "WARN") // one more if it took so long
	time.Sleep(100 * time.Millisecond)
	if n := strings.Count(said.String(), "WARN"); n != before {
		t.Errorf("told %d times after close: %s", n-before, said)
	}
}
