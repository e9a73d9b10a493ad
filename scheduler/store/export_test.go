package store

import (
	"context"

	"github.com/go-zookeeper/zk"

	"sluice/scheduler/store/zkconn"
)

// Careless is the store of a leader that does not look whether it still leads, so that only what others have stored keeps
// it from writing.
func Careless(l Leadership) Store {
	if dl, ok := l.(*dirLeadership); ok {
		return &dirFenced{dl.d, &dirFence{&dirLeadership{d: dl.d, term: dl.term, lost: make(chan struct{})}}}
	}
	zl := l.(*zkLeadership)
	return &zkFenced{zl.c.z, &zkFence{zl.c.z, zl.term, make(chan struct{})}}
}

// LocalGet is a Get that takes what the server has to which the store is connected.
func LocalGet(ctx context.Context, s Store, path string) ([]byte, int64, error) {
	return s.(*zkStore).read(ctx, path)
}

// Candidates are the names of the nodes of those who lead or wait to.
func Candidates(ctx context.Context, s Store) ([]string, error) {
	z := s.(*zkStore)
	names, _, err := z.children(ctx, z.in(zkLeaders))
	return names, err
}

// LargeValues are the ids of the large values that there are, named or not.
func LargeValues(ctx context.Context, s Store) ([]string, error) {
	z := s.(*zkStore)
	names, _, err := z.children(ctx, z.in(zkLarge))
	return names, err
}

// LeavePieces does what a process does that is killed before a node names its large value.
func LeavePieces(ctx context.Context, s Store, path string, value []byte) error {
	z := s.(*zkStore)
	return z.large.write(ctx, nil, newID(), path, value)
}

// LeavePiecesAround does the same, and something else before the first byte is written.
func LeavePiecesAround(ctx context.Context, s Store, path string, value []byte, between func()) error {
	z, id := s.(*zkStore), newID()
	if err := z.large.create(ctx, nil, z.large.node(id), []byte(path)); err != nil {
		return err
	}
	between()
	return z.large.fill(ctx, nil, id, path, value)
}

// RemoveUnnamed does what a leader does with a large value that it has seen to be of no use.
func RemoveUnnamed(ctx context.Context, l Leadership, id, path string) error {
	zl := l.(*zkLeadership)
	return zl.c.z.large.removeUnnamed(ctx, zl.fence, id, path)
}

// Discard does what a leader does that has replaced a large value. It does not look whether it still leads.
func Discard(ctx context.Context, l Leadership, id string) {
	zl := l.(*zkLeadership)
	zl.c.z.large.discard(ctx, &zkFence{zl.c.z, zl.term, make(chan struct{})}, id)
}

// Spoil overwrites what the node of a path holds.
func Spoil(ctx context.Context, s Store, path string, data []byte) error {
	z := s.(*zkStore)
	_, err := zkconn.Call(ctx, z.conn, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(z.node(path), data, -1) })
	return err
}

// Granted is the session timeout of a store in ZooKeeper, in text.
func Granted(s Store) string { return s.(*zkStore).conn.Granted().String() }

// PutAround is a Put that does something between reading a node and changing it, and is not repeated.
func PutAround(ctx context.Context, s Store, path string, value []byte, version int64, between func()) error {
	z := s.(*zkStore)
	p := &zkPut{z: z, path: path, version: version, id: newID()}
	p.body = seal(p.id, value)
	if len(value) > maxHere {
		if err := z.large.write(ctx, nil, p.id, path, value); err != nil {
			return err
		}
		p.body, p.pieces = sealedOf(p.id, z.large.kind(), value).head(), z.large.operation(p.id)
	}
	deletions := z.deletions.Load()
	n, err := p.current(ctx, z.node(path))
	if err != nil {
		return err
	}
	between()
	_, err = z.multi(ctx, nil, p.operations(z.node(path), n.stat, deletions)...)
	return err
}
