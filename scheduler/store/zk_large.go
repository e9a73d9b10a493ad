package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"sluice/scheduler/store/zkconn"
)

// largeValues keeps values that do not fit into a znode. Each is written once, under an id of its own, before a
// node names it, and removed after no node does.
type largeValues interface {
	kind() string
	write(ctx context.Context, f *zkFence, id, path string, value []byte) error
	// read returns ErrDamaged if it is not there.
	read(ctx context.Context, id string, length int) ([]byte, error)
	remove(ctx context.Context, f *zkFence, id string) error
	// operation fails if what was written was removed; nil if there is none.
	operation(id string) any
	// all returns the path for which each value was written that might be of no use, by id.
	all(ctx context.Context) (map[string]string, error)
}

// largeNodes keeps a large value in several znodes below one that has its id for a name and its path for data.
type largeNodes struct{ z *zkStore }

func (l *largeNodes) kind() string { return kindNodes }

func (l *largeNodes) node(id string) string { return l.z.in(zkLarge, id) }

func pieceName(i int) string { return fmt.Sprintf("%04d", i) }

func (l *largeNodes) write(ctx context.Context, f *zkFence, id, path string, value []byte) error {
	if err := l.create(ctx, f, l.node(id), []byte(path)); err != nil {
		return err
	}
	for i := 0; i*maxHere < len(value); i++ {
		piece := value[i*maxHere : min((i+1)*maxHere, len(value))]
		if err := l.create(ctx, f, l.node(id)+"/"+pieceName(i), piece); err != nil {
			return err
		}
	}
	return nil
}

// create makes a node that only this call makes.
func (l *largeNodes) create(ctx context.Context, f *zkFence, node string, data []byte) error {
	for {
		_, err := l.z.multi(ctx, f, &zk.CreateRequest{Path: node, Data: data, Acl: l.z.acl})
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return nil // an attempt without an answer has made it
		case errors.Is(err, zk.ErrNoNode):
			return errPiecesGone
		case !zkconn.Uncertain(err):
			return callError(node, err)
		}
		if err := l.z.pause(ctx); err != nil {
			return callError(node, err)
		}
	}
}

func (l *largeNodes) read(ctx context.Context, id string, length int) ([]byte, error) {
	value := make([]byte, 0, length)
	for i := 0; len(value) < length; i++ {
		n, err := l.z.get(ctx, l.node(id)+"/"+pieceName(i))
		if err != nil {
			return nil, err
		}
		if len(n.data) == 0 {
			return nil, fmt.Errorf("%w: piece %d of the value is not there", ErrDamaged, i)
		}
		value = append(value, n.data...)
	}
	return value, nil
}

func (l *largeNodes) operation(id string) any {
	return &zk.CheckVersionRequest{Path: l.node(id), Version: 0}
}

// remove first marks the value, so that a Put that has not yet named it fails.
func (l *largeNodes) remove(ctx context.Context, f *zkFence, id string) error {
	_, err := l.z.multi(ctx, f, &zk.SetDataRequest{Path: l.node(id), Version: -1})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return callError(l.node(id), err)
	}
	names, _, err := l.z.children(ctx, l.node(id))
	if err != nil {
		return err
	}
	var operations []any
	for _, name := range names {
		operations = append(operations, &zk.DeleteRequest{Path: l.node(id) + "/" + name, Version: -1})
	}
	operations = append(operations, &zk.DeleteRequest{Path: l.node(id), Version: -1})
	_, err = l.z.multi(ctx, f, operations...)
	return callError(l.node(id), err)
}

func (l *largeNodes) all(ctx context.Context) (map[string]string, error) {
	ids, _, err := l.z.children(ctx, l.z.in(zkLarge))
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, id := range ids {
		n, err := l.z.get(ctx, l.node(id))
		if err != nil {
			return nil, err
		}
		if n.stat != nil {
			paths[id] = string(n.data)
		}
	}
	return paths, nil
}

// largeFiles keeps a large value in a file that has its id for a name; it is sealed with the path.
type largeFiles struct{ dir string }

// restAge is how old a file must be before it may be taken for a rest of a killed process.
const restAge = time.Hour

func newLargeFiles(dir string) (*largeFiles, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("store: the directory for large values: %w", err)
	}
	return &largeFiles{dir}, nil
}

func (l *largeFiles) kind() string { return kindFile }

func (l *largeFiles) write(_ context.Context, _ *zkFence, id, path string, value []byte) error {
	tmp := filepath.Join(l.dir, id+".tmp")
	err := writeSynced(tmp, seal(path, value))
	if err == nil {
		err = os.Rename(tmp, filepath.Join(l.dir, id))
	}
	if err == nil {
		err = syncDir(l.dir)
	}
	if err != nil {
		return fmt.Errorf("store: a large value: %w", err)
	}
	return nil
}

func (l *largeFiles) read(_ context.Context, id string, length int) ([]byte, error) {
	if strings.ContainsAny(id, "/.") {
		return nil, fmt.Errorf("%w: a value has the id %q", ErrDamaged, id)
	}
	path := filepath.Join(l.dir, id)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the file %s of the value is not there", ErrDamaged, path)
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > int64(length)+maxHead {
		return nil, fmt.Errorf("%w: the file %s has %d bytes", ErrDamaged, path, info.Size())
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the file %s of the value is not there", ErrDamaged, path)
	}
	if err != nil {
		return nil, err
	}
	_, value, err := unseal(b)
	return value, err
}

func (l *largeFiles) remove(_ context.Context, f *zkFence, id string) error {
	if err := f.check(); err != nil {
		return err
	}
	return ignoreMissing(os.Remove(filepath.Join(l.dir, id)))
}

// operation is none: a file is not taken for a rest while it may be on its way into a node.
func (l *largeFiles) operation(string) any { return nil }

func (l *largeFiles) all(context.Context) (map[string]string, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < restAge {
			continue
		}
		path, err := l.pathOf(e.Name())
		if err != nil {
			return nil, err
		}
		paths[e.Name()] = path
	}
	return paths, nil
}

// pathOf is the path for which a file was written; empty if that cannot be told.
func (l *largeFiles) pathOf(id string) (string, error) {
	f, err := os.Open(filepath.Join(l.dir, id))
	if err != nil {
		return "", ignoreMissing(err)
	}
	defer f.Close()
	b := make([]byte, maxHead)
	n, err := f.Read(b)
	if err != nil {
		return "", nil // an empty file is a rest
	}
	s, _, err := readSealed(b[:n])
	if err != nil {
		return "", nil
	}
	return s.id, nil
}

// clean removes large values that no node names: rests of killed processes. rests is what there was before any of
// those that are now being written.
func (z *zkStore) clean(ctx context.Context, f *zkFence, rests map[string]string) {
	for id, path := range rests {
		if checkPath(path) == nil {
			n, err := z.get(ctx, z.node(path))
			if err != nil {
				return
			}
			if largeID(n.data) == id {
				continue
			}
		}
		z.discard(ctx, f, id)
	}
}
