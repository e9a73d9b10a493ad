package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"sluice/scheduler/store/zkconn"
)

// errPiecesGone says that what a large value was written to was taken for a rest of a killed process.
var errPiecesGone = errors.New("store: the pieces of the value were removed")

// errUncertain ends a call of which it cannot be known whether it had an effect.
var errUncertain = errors.New("the connection to ZooKeeper broke, and the value has changed since: it may have been stored and replaced, or never")

// Put implements Store.
func (z *zkStore) Put(ctx context.Context, path string, value []byte, version int64) (int64, error) {
	return z.put(ctx, nil, path, value, version)
}

func (z *zkStore) put(ctx context.Context, f *zkFence, path string, value []byte, version int64) (int64, error) {
	if err := checkPut(path, value); err != nil {
		return 0, err
	}
	for {
		next, err := z.putOnce(ctx, f, path, value, version)
		if !errors.Is(err, errPiecesGone) {
			return next, err
		}
	}
}

// zkPut is a Put under way. Its id, which the node holds, tells that a value is its own.
type zkPut struct {
	z       *zkStore
	f       *zkFence
	path    string
	version int64 // that the caller named

	id   string
	body []byte // for the node
	old  string // the large value that is replaced; empty if there is none

	pieces    any  // must hold at the end; nil if there are none
	uncertain bool // an attempt had no answer
}

func (z *zkStore) putOnce(ctx context.Context, f *zkFence, path string, value []byte, version int64) (int64, error) {
	p := &zkPut{z: z, f: f, path: path, version: version, id: newID()}
	if len(value) <= maxHere {
		p.body = seal(p.id, value)
	} else {
		// A version that is wrong is found out before a lot is written.
		if err := p.look(ctx); err != nil {
			return 0, err
		}
		if err := z.large.write(ctx, f, p.id, path, value); err != nil {
			if ctx.Err() == nil {
				z.large.discard(ctx, nil, p.id)
			}
			return 0, err
		}
		p.body, p.pieces = sealedOf(p.id, z.large.kind(), value).head(), z.large.operation(p.id)
	}
	next, err := p.store(ctx)
	switch {
	case err == nil && p.old != "":
		z.large.discard(ctx, f, p.old)
	case err != nil && len(value) > maxHere && notStored(err):
		z.large.discard(ctx, nil, p.id)
	}
	return next, err
}

// notStored says whether an error tells that the value was not stored.
func notStored(err error) bool {
	return errors.Is(err, ErrVersion) || errors.Is(err, ErrNotLeader) || errors.Is(err, errPiecesGone)
}

// look reads the node and returns an error if the version is another one for certain.
func (p *zkPut) look(ctx context.Context) error {
	stat, err := p.z.stat(ctx, p.z.node(p.path))
	if err != nil || held(stat) == p.version {
		return err
	}
	_, err = p.changed(ctx)
	return err
}

// store tries until it is known what happened.
func (p *zkPut) store(ctx context.Context) (int64, error) {
	for {
		next, err := p.attempt(ctx)
		if err != nil || next != 0 {
			return next, err
		}
	}
}

// attempt returns 0 without an error if it must be repeated.
func (p *zkPut) attempt(ctx context.Context) (int64, error) {
	node := p.z.node(p.path)
	deletions := p.z.deletions.Load() // before the node is read
	n, err := p.current(ctx, node)
	if err != nil {
		return 0, err
	}
	if held(n.stat) != p.version {
		return p.changed(ctx)
	}
	p.old = largeID(n.data)
	operations := p.operations(node, n.stat, deletions)
	answers, err := p.z.multi(ctx, p.f, operations...)
	if err == nil {
		return setVersion(answers), nil
	}
	if zkconn.Uncertain(err) {
		p.uncertain = true
		return 0, p.z.pause(ctx)
	}
	return 0, p.refused(ctx, err, operations)
}

// current reads the node as far as is needed: only the data that name a large value matter.
func (p *zkPut) current(ctx context.Context, node string) (znode, error) {
	stat, err := p.z.stat(ctx, node)
	if err != nil || stat == nil || stat.DataLength == 0 || stat.DataLength > maxReference {
		return znode{stat: stat}, err
	}
	return p.z.get(ctx, node)
}

// largeID is the id of the large value that the data of a node name; empty if they hold the value.
func largeID(data []byte) string {
	s, _, err := readSealed(data)
	if err != nil || s.kind == kindHere {
		return ""
	}
	return s.id
}

// operations are what stores the value. A node that holds none has data of length 0, and one that holds one was set
// at least once, so that the answer to the last operation but the check of the pieces tells the version.
func (p *zkPut) operations(node string, stat *zk.Stat, deletions int32) []any {
	var all []any
	var version int32
	if stat == nil {
		all = append(all, &zk.CreateRequest{Path: node, Acl: p.z.acl})
	} else {
		version = stat.Version
	}
	if p.version > 0 {
		// Versions of znodes begin anew when a node is removed and created again.
		all = append(all, &zk.CheckVersionRequest{Path: p.z.in(zkDeletions), Version: deletions})
	}
	all = append(all, &zk.SetDataRequest{Path: node, Data: p.body, Version: version})
	if p.pieces != nil {
		all = append(all, p.pieces)
	}
	return all
}

// setVersion finds the version in the answers.
func setVersion(answers []zk.MultiResponse) int64 {
	var version int64
	for _, a := range answers {
		if a.Stat != nil {
			version = a.Stat.Mzxid
		}
	}
	return version
}

// refused says what follows from a refused operation: nil if the attempt is to be repeated.
func (p *zkPut) refused(ctx context.Context, err error, operations []any) error {
	node := p.z.node(p.path)
	var which *multiError
	if !errors.As(err, &which) || errors.Is(err, zk.ErrNoAuth) {
		return callError(node, err)
	}
	switch operation := operations[which.index]; {
	case operation == p.pieces:
		return errPiecesGone
	case errors.Is(which.err, zk.ErrNoNode) && which.index == 0 && p.version == 0:
		return p.z.makeParents(ctx, p.f, node)
	case !errors.Is(which.err, zk.ErrBadVersion) && !errors.Is(which.err, zk.ErrNoNode) && !errors.Is(which.err, zk.ErrNodeExists):
		return explain(node, err)
	}
	// Something has changed since the node was read.
	return p.z.seeDeletions(ctx)
}

// callError explains an error that is not yet one of this package or the context.
func callError(node string, err error) error {
	if err == nil || errors.Is(err, ErrNotLeader) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return explain(node, err)
}

// makeParents creates the nodes above a node that are not there.
func (z *zkStore) makeParents(ctx context.Context, f *zkFence, node string) error {
	above := parent(node)
	if above == z.in(zkValues) {
		return nil
	}
	_, err := z.multi(ctx, f, &zk.CreateRequest{Path: above, Acl: z.acl})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return z.makeParents(ctx, f, above) // the caller comes again for the rest
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case zkconn.Uncertain(err):
		return z.pause(ctx)
	case err != nil:
		return callError(above, err)
	}
	return nil
}

// changed is called when the node holds another version than the caller named. It returns 0 without an error
// if that was only seen late.
func (p *zkPut) changed(ctx context.Context) (int64, error) {
	if err := p.z.sync(ctx); err != nil {
		return 0, err
	}
	n, err := p.z.get(ctx, p.z.node(p.path))
	if err != nil {
		return 0, err
	}
	if s, _, err := readSealed(n.data); err == nil && s.id == p.id {
		return held(n.stat), nil // this call's own value, of an attempt without an answer
	}
	if held(n.stat) == p.version {
		return 0, nil
	}
	if err := p.f.verify(ctx); err != nil {
		return 0, err
	}
	if p.uncertain {
		return 0, fmt.Errorf("store: %q: %w", p.path, errUncertain)
	}
	return 0, fmt.Errorf("%w: %q has version %d, not %d", ErrVersion, p.path, held(n.stat), p.version)
}
