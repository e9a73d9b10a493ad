package detect

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"sluice/internal/zktest"
	framework "sluice/scheduler/mesos"
	"sluice/scheduler/store/zkconn"
)

func TestMain(m *testing.M) { os.Exit(zktest.Main(m)) }

var _ framework.Detector = (*Detector)(nil)

// cluster plays masters: each has a session of its own.
type cluster struct {
	*testing.T
	ctx  context.Context
	addr string
	path string
}

func newCluster(t *testing.T, path string) *cluster {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	return &cluster{t, ctx, zktest.Shared(t), path}
}

func (c *cluster) connect() *zkconn.Conn {
	c.Helper()
	conn, err := zkconn.Open([]string{c.addr}, zkconn.Options{Session: 30 * time.Second})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(conn.Close)
	return conn
}

func (c *cluster) create(conn *zkconn.Conn, name string, data []byte, flags int32) {
	c.Helper()
	_, err := zkconn.Call(c.ctx, conn, func(z *zk.Conn) (string, error) {
		return z.Create(name, data, flags, zk.WorldACL(zk.PermAll))
	})
	if err != nil {
		c.Fatal(err)
	}
}

// master is a master that runs until its session is closed.
func (c *cluster) master(label string, data []byte) *zkconn.Conn {
	c.Helper()
	conn := c.connect()
	c.create(conn, c.path+"/"+label, data, zk.FlagEphemeralSequential)
	return conn
}

func (c *cluster) json(port int) *zkconn.Conn {
	c.Helper()
	return c.master(jsonPrefix, fmt.Appendf(nil, `{"id":"m%d","hostname":"localhost","address":{"ip":"127.0.0.1","port":%d}}`, port, port))
}

// detector watches until the test ends.
func (c *cluster) detector(addr string) <-chan Master {
	c.Helper()
	d, err := Open("zk://"+addr+c.path, Options{Session: time.Second})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(d.Close)
	return d.Detect(c.ctx)
}

// want waits until a master is told; 0 is none.
func (c *cluster) want(masters <-chan Master, port int) {
	c.Helper()
	select {
	case m, ok := <-masters:
		if !ok || m.Port != port || m.Known() != (port != 0) {
			c.Fatalf("told %+v %v, want port %d", m, ok, port)
		}
	case <-time.After(time.Minute):
		c.Fatalf("nothing is told, want port %d", port)
	}
}

func (c *cluster) wantSilence(masters <-chan Master) {
	c.Helper()
	select {
	case m := <-masters:
		c.Fatalf("told %+v", m)
	case <-time.After(100 * time.Millisecond):
	}
}

// TestLeaders: masters come and go, and the first of those that are left leads.
func TestLeaders(t *testing.T) {
	c := newCluster(t, "/mesos-leaders")
	masters := c.detector(c.addr)
	c.want(masters, 0) // not even the path is there
	c.create(c.connect(), c.path, nil, 0)
	c.create(c.connect(), c.path+"/log_replicas", nil, 0)
	c.wantSilence(masters)
	a := c.json(5050)
	c.want(masters, 5050)
	b := c.json(5060)
	number := uint32(5065)
	old, err := (&mesos.MasterInfo{ID: "old", IP: 16777343, Port: &number}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	d := c.master(protobufPrefix, old)
	c.wantSilence(masters)
	c.want(c.detector(c.addr), 5050) // who comes later is told too
	a.Close()
	c.want(masters, 5060)
	b.Close()
	c.want(masters, 5065)
	e := c.json(5070)
	d.Close()
	c.want(masters, 5070)
	// What cannot be read counts as no leader.
	bad := c.master(jsonPrefix, []byte("?"))
	e.Close()
	c.want(masters, 0)
	c.json(5080)
	c.wantSilence(masters)
	bad.Close()
	c.want(masters, 5080)
}

// TestLate: who reads late gets the latest.
func TestLate(t *testing.T) {
	c := newCluster(t, "/mesos-late")
	c.create(c.connect(), c.path, nil, 0)
	masters := c.detector(c.addr)
	port := 5050
	// The detector gets some time, and more if it has not made do with that.
	for pause := 200 * time.Millisecond; ; pause *= 2 {
		a := c.json(port)
		time.Sleep(pause / 2)
		a.Close()
		b := c.json(port + 1)
		time.Sleep(pause)
		if m := <-masters; m.Port == port+1 {
			break
		} else if pause > 5*time.Second {
			t.Fatalf("told %+v, and %v before that %d leads", m, pause, port+1)
		}
		for m := range masters {
			if m.Port == port+1 {
				break
			}
		}
		b.Close()
		port += 2
	}
	c.wantSilence(masters)
}

// TestConnectionLoss: a change that happened while ZooKeeper could not be reached is told afterwards, also when the
// session has expired meanwhile; nothing is told before.
func TestConnectionLoss(t *testing.T) {
	c := newCluster(t, "/mesos-loss")
	c.create(c.connect(), c.path, nil, 0)
	proxy := zktest.NewProxy(t, c.addr)
	masters := c.detector(proxy.Addr())
	c.want(masters, 0)
	last := c.json(5000)
	c.want(masters, 5000)
	for i, fail := range []struct {
		how  func()
		wait time.Duration
	}{
		{proxy.Break, 0},
		{proxy.Cut, 100 * time.Millisecond},
		{proxy.Cut, 1500 * time.Millisecond},
		{proxy.Freeze, 1500 * time.Millisecond},
	} {
		fail.how()
		if fail.wait > 0 {
			c.wantSilence(masters)
		}
		next := c.json(5001 + i)
		if fail.wait > 0 {
			last.Close()
			time.Sleep(fail.wait)
			proxy.Heal()
		} else {
			last.Close()
		}
		c.want(masters, 5001+i)
		last = next
	}
}

// TestMasters: the address is told, by IP or by name.
func TestMasters(t *testing.T) {
	c := newCluster(t, "/mesos-masters")
	var told []<-chan string
	for _, hostnames := range []bool{false, true} {
		d, err := Open("zk://"+c.addr+c.path, Options{Hostnames: hostnames})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		told = append(told, d.Masters())
	}
	want := func(addresses ...string) {
		t.Helper()
		for i, address := range addresses {
			select {
			case got, ok := <-told[i]:
				if !ok || got != address {
					t.Fatalf("told %q %v, want %q", got, ok, address)
				}
			case <-c.ctx.Done():
				t.Fatalf("nothing is told, want %q", address)
			}
		}
	}
	want("", "")
	c.create(c.connect(), c.path, nil, 0)
	a := c.json(5050)
	want("127.0.0.1:5050", "localhost:5050")
	a.Close()
	want("", "")
}

// TestEnds: the channel is closed with the context and with the Detector, and nothing is left behind.
func TestEnds(t *testing.T) {
	addr := zktest.Shared(t)
	ignore := goleak.IgnoreCurrent()
	d, err := Open("zk://"+addr+"/mesos-ends", Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	first, second, third := d.Detect(ctx), d.Detect(context.Background()), d.Masters()
	cancel()
	for range first {
		// What was told before.
	}
	<-second
	d.Close()
	if m, ok := <-second; ok {
		t.Errorf("after Close %+v is told", m)
	}
	for range third {
		// What was told before.
	}
	goleak.VerifyNone(t, ignore)
}

// TestWarnings: a path that is not there, and one for other users, are told of, and not again and again.
func TestWarnings(t *testing.T) {
	c := newCluster(t, "/mesos-warnings")
	conn := c.connect()
	_, err := zkconn.Call(c.ctx, conn, func(z *zk.Conn) (string, error) {
		return z.Create("/mesos-secret", nil, 0, zk.DigestACL(zk.PermAll, "mesos", "secret"))
	})
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]*lines{}
	for url, want := range map[string]string{
		"zk://" + c.addr + "/mesos-nowhere":            "znode /mesos-nowhere: it is not there",
		"zk://" + c.addr + "/mesos-secret":             "write zk://USER:PASSWORD@HOST:PORT/mesos-secret",
		"zk://mesos:wrong@" + c.addr + "/mesos-secret": "the password is another one",
	} {
		said[want] = &lines{}
		d, err := Open(url, Options{Log: slog.New(slog.NewTextHandler(said[want], nil))})
		if err != nil {
			t.Fatal(err)
		}
		c.want(d.Detect(c.ctx), 0)
		defer d.Close()
	}
	time.Sleep(1500 * time.Millisecond) // it looks again each second where nothing can be watched
	for want, said := range said {
		if s := said.String(); strings.Count(s, want) != 1 || strings.Count(s, "\n") != 1 {
			t.Errorf("%q, want once %q", s, want)
		}
	}
}

// lines is a log that is read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
