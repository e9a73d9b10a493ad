package store

import (
	"context"
	"errors"
)

// MaxValue bounds a value, in bytes.
const MaxValue = 64 << 20

// MaxAbout bounds what a leader says of itself, in bytes.
const MaxAbout = 64 << 10

// Store is a tree of small values with versions. It may be used by several goroutines at the same time.
//
// A path is one or more names of letters, digits, "-", "_" and ".", joined by "/"; "." and ".." are no
// names. Values are whole or not there. The caller keeps the bytes that it passes, and owns those that it gets.
//
// A call waits as long as its context allows while the store cannot be reached.
type Store interface {
	// Get returns a value and its version, which is above 0; ErrNotFound if there is none. It sees what any
	// call of whatever process had stored before it began.
	Get(ctx context.Context, path string) (value []byte, version int64, err error)
	// Put stores a value if the version is still the given one, 0 meaning that there must be none. It
	// returns the new version, which is above all that the path has ever had. ErrVersion says that somebody
	// else was first and that nothing was stored; so do ErrNotLeader and ErrPath. After any other error the
	// value may be stored or not, now or a little later, and Get tells.
	Put(ctx context.Context, path string, value []byte, version int64) (int64, error)
	// Delete removes a value and all below it, if the version is the given one; 0 names a path that holds
	// no value but has some below. ErrNotFound says that there is nothing. Errors mean what they do for Put.
	Delete(ctx context.Context, path string, version int64) error
	// List returns the names below a path that hold a value or have one below, sorted; none is no error.
	// The path "" is the root.
	List(ctx context.Context, path string) ([]string, error)
	// Lead waits until this process leads, and then returns the leadership. about is what others find with
	// Leader, such as the address of the API.
	Lead(ctx context.Context, about []byte) (Leadership, error)
	// Leader returns what the leading process says of itself; ErrNotFound if there is none.
	Leader(ctx context.Context) ([]byte, error)
	// Close ends all leaderships of this Store. Calls under way and later ones fail with ErrClosed.
	Close() error
}

// Leadership is held until it is lost or given up.
type Leadership interface {
	// Term grows from leader to leader. It is above 0.
	Term() int64
	// Lost is closed when the leadership is gone, or may be, or was given up: all work must stop at once.
	Lost() <-chan struct{}
	// Store is the store as the leader may use it: a Put or Delete of a leader of an earlier term fails with
	// ErrNotLeader, whatever version it names, and so does any after Lost. It need not be closed.
	Store() Store
	// Resign gives the leadership up. When it returns nil another process may lead.
	Resign() error
}

// What the errors of a Store are, for errors.Is.
var (
	ErrNotFound  = errors.New("store: not found")
	ErrVersion   = errors.New("store: changed by somebody else")
	ErrNotLeader = errors.New("store: another scheduler leads")
	ErrPath      = errors.New("store: no possible path or value")
	ErrDamaged   = errors.New("store: damaged")
	ErrClosed    = errors.New("store: closed")
)
