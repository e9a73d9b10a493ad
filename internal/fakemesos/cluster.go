package fakemesos

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// Cluster is masters and agents on the loopback. All its methods may be called from any goroutine.
type Cluster struct {
	t    testing.TB
	opts Options

	mu      sync.Mutex // guards everything below, and all that hangs on it
	masters []*front
	leader  int          // index of the leading master, -1 when none leads
	m       *masterState // the state of the leading master; a fail-over makes a new one
	agents  []*agent
	calls   []Call
	unknown []string
	faults  faults
	started int // executors so far
	timers  map[*time.Timer]struct{}
	closed  bool

	zkServers []string
	zkRoot    string
	registry  map[string]bool // ids of agents that the masters' registry knows
	ctx       context.Context
	stop      context.CancelFunc
	running   sync.WaitGroup // executors and simulated work
}

// front is one master process: an address that answers.
type front struct {
	c      *Cluster
	index  int
	addr   string
	server *http.Server
	up     bool

	session *zk.Conn // holds its node in ZooKeeper, nil when there is none
}

// Call is one scheduler call as a master took it.
type Call struct {
	At        time.Time
	Framework string
	Type      string
	JSON      bool
	Call      *scheduler.Call
}

// New starts a cluster that ends with the test.
func New(t testing.TB, opts Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, opts: opts.withDefaults(), leader: 0, timers: map[*time.Timer]struct{}{}, registry: map[string]bool{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if c.opts.WorkDir == "" {
		c.opts.WorkDir = t.TempDir()
	}
	t.Cleanup(c.Close)
	if _, err := schema(); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	for i := range c.opts.Masters {
		f := &front{c: c, index: i, addr: "127.0.0.1:0"}
		c.masters = append(c.masters, f)
		if err := f.start(); err != nil {
			c.mu.Unlock()
			t.Fatal(err)
		}
	}
	c.m = c.newMaster()
	c.every(c.opts.Times.Allocation, c.allocate)
	c.mu.Unlock()
	for _, spec := range opts.Agents {
		c.AddAgent(spec)
	}
	return c
}

func (f *front) start() error {
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		return fmt.Errorf("fakemesos: master %d: %w", f.index, err)
	}
	f.addr, f.up = l.Addr().String(), true
	if f.c.opts.TLS != nil {
		l = tls.NewListener(l, f.c.opts.TLS)
	}
	f.server = &http.Server{Handler: f}
	go func(s *http.Server) { _ = s.Serve(l) }(f.server) // ends with Close
	return nil
}

// Close ends the cluster: executors are killed, connections cut. New does it at the end of the test.
func (c *Cluster) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.stop()
	for t := range c.timers {
		t.Stop()
	}
	var streams []*stream
	if c.m != nil {
		for _, f := range c.m.frameworks {
			streams = append(streams, f.stream)
		}
		streams = append(streams, c.m.watchers...)
	}
	for _, f := range c.masters {
		if f.up {
			_ = f.server.Close()
		}
		f.retire()
	}
	for _, a := range c.agents {
		streams = append(streams, a.close()...)
	}
	unknown := slices.Clone(c.unknown)
	c.mu.Unlock()
	for _, s := range streams {
		if s != nil {
			s.end(true)
		}
	}
	c.running.Wait()
	if len(unknown) > 0 && !c.opts.AllowUnknown {
		c.t.Errorf("fakemesos: calls that no transcript shows: %q", unknown)
	}
}

// Endpoint is the address, host:port, of the leading master, or of the first one when none leads.
func (c *Cluster) Endpoint() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.masters[max(c.leader, 0)].addr
}

// Endpoints are the addresses of all masters.
func (c *Cluster) Endpoints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, f := range c.masters {
		out = append(out, f.addr)
	}
	return out
}

// URL is where the leading master takes the calls of schedulers.
func (c *Cluster) URL() string {
	scheme := "http"
	if c.opts.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + c.Endpoint() + "/api/v1/scheduler"
}

// Calls are the scheduler calls that were taken so far, in order.
func (c *Cluster) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Unknown are the calls that the cluster refused since no transcript shows them.
func (c *Cluster) Unknown() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.unknown)
}

func (c *Cluster) notShown(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	c.unknown = append(c.unknown, text)
	return "fakemesos: no transcript shows this: " + text
}

// after runs fn under the lock. The lock is held by the caller.
func (c *Cluster) after(d time.Duration, fn func()) *time.Timer {
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, t)
		if !c.closed {
			fn()
		}
	})
	c.timers[t] = struct{}{}
	return t
}

// every runs fn at intervals, without drift. The lock is held by the caller.
func (c *Cluster) every(d time.Duration, fn func()) {
	c.at(time.Now().Add(d), d, fn)
}

func (c *Cluster) at(when time.Time, d time.Duration, fn func()) {
	c.after(time.Until(when), func() {
		fn()
		c.at(when.Add(d), d, fn)
	})
}

// drop stops a timer, which may be nil.
func (c *Cluster) drop(t *time.Timer) {
	if t == nil {
		return
	}
	t.Stop()
	delete(c.timers, t)
}

func newUUID() []byte {
	id := uuid.New()
	return id[:]
}

func portOf(addr string) int32 {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
