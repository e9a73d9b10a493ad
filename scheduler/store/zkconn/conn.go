/*
Package zkconn is a connection to ZooKeeper whose calls end with their context.

	c, err := zkconn.Open([]string{"zk1:2181", "zk2:2181"}, zkconn.Options{})
	data, err := zkconn.Read(ctx, c, func(z *zk.Conn) ([]byte, error) { data, _, err := z.Get("/x"); return data, err })
	stat, err := zkconn.Call(ctx, c, func(z *zk.Conn) (*zk.Stat, error) { return z.Set("/x", data, 3) })
	if zkconn.Uncertain(err) { ... } // it may have happened or not

Read repeats what failed since the connection broke or the session ended, until the context ends; so only what may
be done twice belongs there. Call does it once. A call whose context ends goes on behind the scenes: it may
still happen as long as the Conn lives. Calls made one after the other happen in that order.

The connection is kept up by itself. Hosts are looked up each time. After a break another server is tried at
once; when none of them answers, again after a second. A server that accepts a connection and does not answer is given
up after two thirds of the session timeout. A session that has expired is followed by a new one, and
Session tells of it.
*/
package zkconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// DefaultSession is the session timeout where none is named: the least that servers with the usual tick of 2 s grant.
const DefaultSession = 4 * time.Second

// pause is between two attempts of Read.
const pause = 50 * time.Millisecond

// closeWait bounds how long Close waits for the connection to end.
const closeWait = 3 * time.Second

// ErrClosed says that the Conn was closed.
var ErrClosed = errors.New("zkconn: closed")

// Options are the settings of a Conn.
type Options struct {
	// Session is the session timeout that the servers are asked for. They may grant another one.
	Session time.Duration
	// Auth is user:password for digest authentication; none if empty.
	Auth string
	// Log takes what happens to the connection; nothing is logged if it is nil.
	Log *slog.Logger
}

// Conn is a connection. It may be used by several goroutines at the same time.
type Conn struct {
	zk       *zk.Conn
	patience time.Duration // how long a server may take to answer a handshake
	tell     *teller

	granted atomic.Int64 // the session timeout that was granted last, in ns

	mu         sync.Mutex
	session    context.Context // ends with the session
	endSession context.CancelFunc

	ready     chan struct{} // closed once the connection is authenticated
	closed    chan struct{}
	closeOnce sync.Once
	ended     chan struct{} // closed when the library's goroutines have ended
	group     sync.WaitGroup
}

// Open begins to connect to one of the hosts, each host:port. It does not wait.
func Open(hosts []string, o Options) (*Conn, error) {
	if len(hosts) == 0 {
		return nil, errors.New("zkconn: no host is named")
	}
	for _, h := range hosts {
		if _, _, err := net.SplitHostPort(h); err != nil {
			return nil, fmt.Errorf("zkconn: %q is not host:port: %w", h, err)
		}
	}
	if o.Session <= 0 {
		o.Session = DefaultSession
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{patience: o.Session * 2 / 3, ready: make(chan struct{}), closed: make(chan struct{}), ended: make(chan struct{})}
	c.session, c.endSession = context.WithCancel(context.Background())
	c.tell = newTeller(o.Log, hosts, c.patience)
	z, events, err := zk.Connect(hosts, o.Session,
		zk.WithDialer(c.dial), zk.WithHostProvider(&rotation{}), zk.WithLogger(c.tell),
		zk.WithLogInfo(false), zk.WithEventCallback(c.event))
	if err != nil {
		c.tell.close()
		return nil, fmt.Errorf("zkconn: %w", err)
	}
	c.zk = z
	go func() {
		defer close(c.ended)
		for range events {
			// The callback has had them already.
		}
	}()
	if o.Auth == "" {
		close(c.ready)
		return c, nil
	}
	c.group.Go(func() { c.authenticate(o.Auth) })
	return c, nil
}

// authenticate names the user. The library repeats it on later connections once it has worked.
func (c *Conn) authenticate(auth string) {
	for {
		if err := c.zk.AddAuth("digest", []byte(auth)); err == nil {
			close(c.ready)
			return
		}
		select {
		case <-c.closed:
			return
		case <-time.After(pause):
		}
	}
}

// event is called by the library and must not wait.
func (c *Conn) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	c.tell.event(e.State)
	if e.State != zk.StateExpired {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endSession()
	c.session, c.endSession = context.WithCancel(context.Background())
}

// Session ends when the present session has expired, as far as this process knows, or the Conn is closed. A
// process that is cut off learns of it only when it is connected again.
func (c *Conn) Session() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Granted is the session timeout that the servers have granted, 0 before the first session.
func (c *Conn) Granted() time.Duration { return time.Duration(c.granted.Load()) }

// Close ends the session and with it its ephemeral nodes, if a server can be reached at once.
func (c *Conn) Close() {
	c.closeOnce.Do(func() {
		close(c.closed)
		c.tell.close()
		c.mu.Lock()
		c.endSession()
		c.mu.Unlock()
		c.zk.Close()
		c.group.Wait()
		select {
		case <-c.ended:
		case <-time.After(closeWait):
		}
	})
}

// Done is closed when the Conn is closed.
func (c *Conn) Done() <-chan struct{} { return c.closed }

// Call does something once. If the error is Uncertain, or that of the context, it may have happened or not.
func Call[T any](ctx context.Context, c *Conn, do func(z *zk.Conn) (T, error)) (T, error) {
	var zero T
	if err := c.usable(ctx); err != nil {
		return zero, err
	}
	type outcome struct {
		value T
		err   error
	}
	answer := make(chan outcome, 1)
	go func() {
		value, err := do(c.zk)
		answer <- outcome{value, err}
	}()
	select {
	case o := <-answer:
		if o.err != nil && c.isClosed() {
			return zero, ErrClosed
		}
		return o.value, o.err
	case <-ctx.Done():
		return zero, ctx.Err()
	case <-c.closed:
		return zero, ErrClosed
	}
}

// usable waits until the connection has been authenticated once.
func (c *Conn) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.isClosed() {
		return ErrClosed
	}
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return ErrClosed
	}
}

func (c *Conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Read does something until its error is not Uncertain.
func Read[T any](ctx context.Context, c *Conn, do func(z *zk.Conn) (T, error)) (T, error) {
	for {
		value, err := Call(ctx, c, do)
		if !Uncertain(err) {
			return value, err
		}
		if err := Pause(ctx, c); err != nil {
			var zero T
			return zero, err
		}
	}
}

// Pause waits a moment, before something is tried again.
func Pause(ctx context.Context, c *Conn) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return ErrClosed
	}
}

// Uncertain says that the connection or the session ended before there was an answer.
func Uncertain(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	for _, e := range []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionExpired, zk.ErrSessionMoved, zk.ErrClosing, io.EOF, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	// What a write to the socket returned.
	var network net.Error
	return errors.As(err, &network)
}
