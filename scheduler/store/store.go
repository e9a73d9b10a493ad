// Package store keeps what a scheduler must not forget, for one machine in a directory and for a cluster in
// ZooKeeper, and says who leads. See doc.go.
package store

import (
	"context"
	"errors"
)

// Store is a tree of small values with versions. It may be used by several goroutines at the same time.
//
// A path is one or more names of letters, digits, "-", "_" and ".", joined by "/". Values are whole or not
// there; one of more than a few hundred KiB is stored outside of ZooKeeper's nodes, which the caller
// does not see.
type Store interface {
	// Get returns a value and its version, which is above 0; ErrNotFound if there is none.
	Get(ctx context.Context, path string) (value []byte, version int64, err error)
	// Put stores a value if the version is still the given one, 0 meaning that there must be none. It
	// returns the new one. ErrVersion says that somebody else was first; after any other error the value
	// may be stored or not, and Get tells.
	Put(ctx context.Context, path string, value []byte, version int64) (int64, error)
	// Delete removes a value and all below it, if the version is the given one.
	Delete(ctx context.Context, path string, version int64) error
	// List returns the names below a path that hold a value or have one below, sorted; none is no error.
	List(ctx context.Context, path string) ([]string, error)
	// Lead waits until this process leads, and then returns the leadership. about is what others find with
	// Leader, such as the address of the API.
	Lead(ctx context.Context, about []byte) (Leadership, error)
	// Leader returns what the leading process says of itself; ErrNotFound if there is none.
	Leader(ctx context.Context) ([]byte, error)
	Close() error
}

// Leadership is held until it is lost or given up.
type Leadership interface {
	// Term grows from leader to leader.
	Term() int64
	// Lost is closed when the leadership is gone, or may be: all work must stop at once.
	Lost() <-chan struct{}
	// Store is the store as the leader may use it: a Put or Delete of a leader of an earlier term fails with
	// ErrNotLeader, whatever version it names.
	Store() Store
	// Resign gives the leadership up.
	Resign() error
}

var (
	ErrNotFound  = errors.New("store: not found")
	ErrVersion   = errors.New("store: changed by somebody else")
	ErrNotLeader = errors.New("store: another scheduler leads")
)
