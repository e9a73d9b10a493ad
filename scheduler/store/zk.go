package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"sluice/scheduler/store/zkconn"
)

// Znodes below the root.
const (
	zkValues    = "values"    // the tree
	zkLarge     = "large"     // pieces of large values
	zkLeaders   = "leaders"   // who leads or waits to, ephemeral and numbered
	zkTerm      = "term"      // the last term and the candidate that began it
	zkDeletions = "deletions" // its version counts the removals
)

// maxHere bounds a value that is kept in its znode, in bytes. A server takes 1 MiB.
const maxHere = 512 << 10

// Options are the settings of a store in ZooKeeper.
type Options struct {
	// Session is the session timeout; 4 s if it is 0. A leader that cannot reach the servers stops after two
	// thirds of it, and another one leads after all of it. The servers grant 2 to 20 of their ticks.
	Session time.Duration
	// Auth is user:password. If it is not empty, only this user may read and write the nodes that are created.
	Auth string
	// LargeDir is a directory that all schedulers see, for values of more than 512 KiB. They are split
	// into several znodes if it is empty.
	LargeDir string
	// Log takes what happens to the connection; nothing is logged if it is nil.
	Log *slog.Logger
}

// zkStore keeps the tree in ZooKeeper.
type zkStore struct {
	conn  *zkconn.Conn
	root  string
	acl   []zk.ACL
	large *largeValues
	log   *slog.Logger

	// deletions is the version of the node of that name that was seen last. What was read after it was
	// seen, and is changed only if it has not moved, was not removed in between.
	deletions atomic.Int32

	life    context.Context // ends when the Store is closed
	end     context.CancelFunc
	leaders sync.WaitGroup // goroutines of leaderships and candidates
}

// OpenZooKeeper opens the store below a znode, which it creates if it is not there. hosts are host:port.
func OpenZooKeeper(ctx context.Context, hosts []string, root string, o Options) (Store, error) {
	if !validRoot(root) {
		return nil, fmt.Errorf("%w: %q is no znode; write /name, or /name/name and so on", ErrPath, root)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	z := &zkStore{root: root, acl: zk.WorldACL(zk.PermAll), log: o.Log}
	if o.Auth != "" {
		user, password, ok := strings.Cut(o.Auth, ":")
		if !ok || user == "" {
			return nil, errors.New("store: the ZooKeeper credentials are not user:password")
		}
		z.acl = zk.DigestACL(zk.PermAll, user, password)
	}
	z.life, z.end = context.WithCancel(context.Background())
	var err error
	if z.large, err = openLargeValues(z, o.LargeDir); err != nil {
		return nil, err
	}
	if z.conn, err = zkconn.Open(hosts, zkconn.Options{Session: o.Session, Auth: o.Auth, Log: o.Log}); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := z.prepare(ctx); err != nil {
		z.conn.Close()
		return nil, fmt.Errorf("store: ZooKeeper at %s: %w", strings.Join(hosts, ","), err)
	}
	if granted := z.conn.Granted(); o.Log != nil && o.Session > 0 && granted != o.Session {
		o.Log.Warn("ZooKeeper grants another session timeout than was asked for: it has from 2 to 20 of its ticks (tickTime)", "asked", o.Session, "granted", granted)
	}
	return z, nil
}

func validRoot(root string) bool {
	below, found := strings.CutPrefix(root, "/")
	return found && checkPath(below) == nil
}

// prepare creates the nodes that are always there.
func (z *zkStore) prepare(ctx context.Context) error {
	path := ""
	for _, name := range strings.Split(z.root[1:], "/") {
		path += "/" + name
		if err := z.ensure(ctx, path); err != nil {
			return err
		}
	}
	for _, name := range []string{zkValues, zkLarge, zkLeaders, zkTerm, zkDeletions} {
		if err := z.ensure(ctx, z.in(name)); err != nil {
			return err
		}
	}
	// Nodes of another user can be seen, but not read.
	if _, err := z.get(ctx, z.in(zkTerm)); err != nil {
		return err
	}
	return z.seeDeletions(ctx)
}

// ensure creates an empty node if it is not there.
func (z *zkStore) ensure(ctx context.Context, path string) error {
	stat, err := z.stat(ctx, path)
	if err != nil || stat != nil {
		return err
	}
	_, err = zkconn.Read(ctx, z.conn, func(c *zk.Conn) (string, error) { return c.Create(path, nil, zk.FlagPersistent, z.acl) })
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return explain(path, err)
}

func (z *zkStore) in(names ...string) string {
	return z.root + "/" + strings.Join(names, "/")
}

// node is where a path has its value and what is below it.
func (z *zkStore) node(path string) string {
	if path == "" {
		return z.in(zkValues)
	}
	return z.in(zkValues, path)
}

// explain names the node and, where it is known, what to do.
func explain(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zkconn.ErrClosed):
		return ErrClosed
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("store: znode %s belongs to another user, or the password is another one; name its user:password, or another path: %w", path, err)
	}
	return fmt.Errorf("store: znode %s: %w", path, err)
}

// node with its data, as ZooKeeper has it.
type znode struct {
	data []byte
	stat *zk.Stat
}

// get reads a node; a nil stat means that it is not there.
func (z *zkStore) get(ctx context.Context, path string) (znode, error) {
	n, err := zkconn.Read(ctx, z.conn, func(c *zk.Conn) (znode, error) {
		data, stat, err := c.Get(path)
		return znode{data, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return znode{}, nil
	}
	return n, explain(path, err)
}

// stat is nil if the node is not there.
func (z *zkStore) stat(ctx context.Context, path string) (*zk.Stat, error) {
	stat, err := zkconn.Read(ctx, z.conn, func(c *zk.Conn) (*zk.Stat, error) {
		found, stat, err := c.Exists(path)
		if !found {
			stat = nil
		}
		return stat, err
	})
	return stat, explain(path, err)
}

// children returns the names below a node, and nil without a stat if it is not there.
func (z *zkStore) children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	type list struct {
		names []string
		stat  *zk.Stat
	}
	l, err := zkconn.Read(ctx, z.conn, func(c *zk.Conn) (list, error) {
		names, stat, err := c.Children(path)
		return list{names, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, nil
	}
	return l.names, l.stat, explain(path, err)
}

// sync makes later reads see all that had been stored before, through whatever server. It asks by a transaction without
// a change, on which most of the servers must agree, and whose answer comes from a server that has all that was stored
// before it. What ZooKeeper calls sync is not enough: also a server answers it that led once and was replaced while it
// stood still or was cut off, for as long as it has not noticed. Reads do not go back after that, whatever server they
// come to: in a session no server answers that has not all that the client has seen, and each session begins with
// a transaction.
func (z *zkStore) sync(ctx context.Context) error {
	_, err := zkconn.Read(ctx, z.conn, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		return c.Multi(&zk.CheckVersionRequest{Path: z.in(zkDeletions), Version: -1})
	})
	if errors.Is(err, zk.ErrNoNode) {
		return z.rootGone()
	}
	return explain(z.root, err)
}

// rootGone says that a node is not there that always is.
func (z *zkStore) rootGone() error {
	return fmt.Errorf("%w: znode %s is gone; open the store again", ErrDamaged, z.in(zkDeletions))
}

// seeDeletions looks up the count of removals.
func (z *zkStore) seeDeletions(ctx context.Context) error {
	if err := z.sync(ctx); err != nil {
		return err
	}
	stat, err := z.stat(ctx, z.in(zkDeletions))
	if err != nil {
		return err
	}
	if stat == nil {
		return z.rootGone()
	}
	z.deletions.Store(stat.Version)
	return nil
}

// held is the version of the value that a node holds; 0 if there is none.
func held(stat *zk.Stat) int64 {
	if stat == nil || stat.DataLength == 0 {
		return 0
	}
	return stat.Mzxid
}

// pause waits a moment, before something is tried again.
func (z *zkStore) pause(ctx context.Context) error {
	return callError(z.root, zkconn.Pause(ctx, z.conn))
}

// multiError says which of several operations was refused.
type multiError struct {
	index int
	err   error
}

func (e *multiError) Error() string { return e.err.Error() }

func (e *multiError) Unwrap() error { return e.err }

// multi does all or nothing, and with a fence only in its term. A refused operation is a multiError.
func (z *zkStore) multi(ctx context.Context, f *zkFence, operations ...any) ([]zk.MultiResponse, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f != nil {
		operations = append([]any{f.operation()}, operations...)
	}
	answers, err := zkconn.Call(ctx, z.conn, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(operations...) })
	index := slices.IndexFunc(answers, func(a zk.MultiResponse) bool { return a.Error != nil })
	if f != nil && index == 0 {
		return nil, f.refusal()
	}
	if f != nil {
		index--
		answers = answers[min(1, len(answers)):]
	}
	if err != nil && index >= 0 {
		return nil, &multiError{index, err}
	}
	return answers, err
}

// newID names a value, a candidate or a writer.
func newID() string {
	b := make([]byte, 16)
	// Read never fails.
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// Get implements Store.
func (z *zkStore) Get(ctx context.Context, path string) ([]byte, int64, error) {
	if err := checkPath(path); err != nil {
		return nil, 0, err
	}
	if err := z.sync(ctx); err != nil {
		return nil, 0, err
	}
	return z.read(ctx, path)
}

// read returns a value. One whose pieces are gone has been replaced, so that it is read again.
func (z *zkStore) read(ctx context.Context, path string) ([]byte, int64, error) {
	before := int64(0)
	for {
		n, err := z.get(ctx, z.node(path))
		if err != nil {
			return nil, 0, err
		}
		version := held(n.stat)
		if version == 0 {
			return nil, 0, fmt.Errorf("%w: %q", ErrNotFound, path)
		}
		value, err := z.value(ctx, n.data)
		if err == nil {
			return value, version, nil
		}
		if version == before || !errors.Is(err, ErrDamaged) {
			return nil, 0, fmt.Errorf("store: %q: %w", path, err)
		}
		before = version
		if err := z.sync(ctx); err != nil {
			return nil, 0, err
		}
	}
}

// value is what the data of a node stand for.
func (z *zkStore) value(ctx context.Context, data []byte) ([]byte, error) {
	s, rest, err := readSealed(data)
	if err != nil {
		return nil, err
	}
	switch s.kind {
	case kindHere:
	case kindFile:
		rest, err = z.large.readFile(s.id, s.length)
	default:
		// Also while values are written to files: it was written before there was a folder for them.
		rest, err = z.large.readNodes(ctx, s.id, s.length)
	}
	if err != nil {
		return nil, err
	}
	return s.check(rest)
}

// Leader implements Store.
func (z *zkStore) Leader(ctx context.Context) ([]byte, error) {
	if err := z.sync(ctx); err != nil {
		return nil, err
	}
	n, err := z.get(ctx, z.in(zkTerm))
	if err != nil {
		return nil, err
	}
	t, err := readTerm(n)
	if err != nil {
		return nil, err
	}
	if t.candidate != "" {
		n, err = z.get(ctx, z.in(zkLeaders, t.candidate))
		if err != nil {
			return nil, err
		}
		if n.stat != nil {
			return n.data, nil
		}
	}
	return nil, fmt.Errorf("%w: no scheduler leads", ErrNotFound)
}

// Close implements Store.
func (z *zkStore) Close() error {
	// Leaderships end before their session does.
	z.end()
	z.leaders.Wait()
	z.conn.Close()
	return nil
}
