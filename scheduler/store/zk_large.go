package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-zookeeper/zk"

	"sluice/scheduler/store/zkconn"
)

// largeValues keeps values that do not fit into a znode. Each is written once, under an id of its own, before a
// node names it, and removed after no node does. A znode that has the id for a name, and the path for data, is there
// from before the first byte is written until the last has been removed; so a leader of an earlier term, who may not
// change znodes, removes nothing, and nothing is left that nobody finds. The version of that znode is 0 until it is
// marked for removal; from then on no node can name the id any more. Who has written a file looks for that mark afterwards,
// and removes the file again: the value may have been erased while its writer stood still. Only a writer that is
// killed between the two leaves a file.
type largeValues struct {
	z *zkStore
	// dir is a folder for files that have ids for names. The bytes are in znodes below that of the id where it is empty.
	dir string
}

// openLargeValues creates the folder if it is not there. What is in it is for its user only, as znodes may be.
func openLargeValues(z *zkStore, dir string) (*largeValues, error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("store: the directory for large values: %w", err)
		}
	}
	return &largeValues{z, dir}, nil
}

// kind is where a value is that is written now.
func (l *largeValues) kind() string {
	if l.dir != "" {
		return kindFile
	}
	return kindNodes
}

func (l *largeValues) node(id string) string { return l.z.in(zkLarge, id) }

func pieceName(i int) string { return fmt.Sprintf("%04d", i) }

func (l *largeValues) file(id string) string { return filepath.Join(l.dir, id) }

// unfinished is the name of a file as long as not all of it was written.
func unfinished(file string) string { return file + ".tmp" }

// write stores the bytes of a value.
func (l *largeValues) write(ctx context.Context, f *zkFence, id, path string, value []byte) error {
	if err := l.create(ctx, f, l.node(id), []byte(path)); err != nil {
		return err
	}
	return l.fill(ctx, f, id, path, value)
}

// fill writes the bytes of a value that has its node.
func (l *largeValues) fill(ctx context.Context, f *zkFence, id, path string, value []byte) error {
	if l.dir != "" {
		err := l.writeFile(id, path, value)
		if err == nil {
			err = l.unmarked(ctx, f, id)
		}
		if err != nil { // no node names it
			return errors.Join(err, ignoreMissing(os.Remove(l.file(id))))
		}
		return nil
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
func (l *largeValues) create(ctx context.Context, f *zkFence, node string, data []byte) error {
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

// unmarked returns an error if a value is marked for removal, or removed.
func (l *largeValues) unmarked(ctx context.Context, f *zkFence, id string) error {
	for {
		_, err := l.z.multi(ctx, f, l.operation(id))
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
			return errPiecesGone
		case !zkconn.Uncertain(err):
			return callError(l.node(id), err)
		}
		if err := l.z.pause(ctx); err != nil {
			return callError(l.node(id), err)
		}
	}
}

// writeFile writes a file that is sealed with the path, whole or not at all.
func (l *largeValues) writeFile(id, path string, value []byte) error {
	file := l.file(id)
	err := writeSynced(unfinished(file), seal(path, value))
	if err == nil {
		err = os.Rename(unfinished(file), file)
	}
	if err == nil {
		err = syncDir(l.dir)
	}
	if err != nil {
		return fmt.Errorf("store: a large value: %w", err)
	}
	return nil
}

// readNodes returns ErrDamaged if the value is not there.
func (l *largeValues) readNodes(ctx context.Context, id string, length int) ([]byte, error) {
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

// readFile returns ErrDamaged if the value is not there.
func (l *largeValues) readFile(id string, length int) ([]byte, error) {
	if l.dir == "" {
		return nil, fmt.Errorf("the value is in the file %s of a folder for large values, and this store was opened without one: give it that folder, which for a scheduler is large in its --state-root", id)
	}
	if strings.ContainsAny(id, "/.") {
		return nil, fmt.Errorf("%w: a value has the id %q", ErrDamaged, id)
	}
	missing := fmt.Errorf("%w: the file %s of the value is not there; all schedulers must see the same folder", ErrDamaged, l.file(id))
	info, err := os.Stat(l.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > int64(length)+maxHead {
		return nil, fmt.Errorf("%w: the file %s has %d bytes", ErrDamaged, l.file(id), info.Size())
	}
	b, err := os.ReadFile(l.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	_, value, err := unseal(b)
	return value, err
}

// operation fails if what was written is marked for removal.
func (l *largeValues) operation(id string) any {
	return &zk.CheckVersionRequest{Path: l.node(id), Version: 0}
}

// mark says that a value may be removed, so that a Put that has not yet named it fails. It returns false if there is nothing
// of it any more. The path is kept for one that turns out to be named; it is empty if none can be.
func (l *largeValues) mark(ctx context.Context, f *zkFence, id, path string) (bool, error) {
	_, err := l.z.multi(ctx, f, &zk.SetDataRequest{Path: l.node(id), Data: []byte(path), Version: -1})
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, callError(l.node(id), err)
}

// erase removes a value that is marked and that no node names.
func (l *largeValues) erase(ctx context.Context, f *zkFence, id string) error {
	if l.dir != "" {
		file := l.file(id)
		err := errors.Join(ignoreMissing(os.Remove(file)), ignoreMissing(os.Remove(unfinished(file))), syncDir(l.dir))
		if err != nil {
			return err
		}
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

// all returns the path for which each value was written, by id; it is empty where none names it.
func (l *largeValues) all(ctx context.Context) (map[string]string, error) {
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

// discard removes a large value that no node will name. What is left is removed by the next leader.
func (l *largeValues) discard(ctx context.Context, f *zkFence, id string) {
	found, err := l.mark(ctx, f, id, "")
	if found && err == nil {
		err = l.erase(ctx, f, id)
	}
	if err != nil {
		l.z.log.Info("store: a large value of no use stays for now", "id", id, "error", err)
	}
}

// clean removes large values that no node names: rests of killed processes. rests is what there was when the term began.
func (l *largeValues) clean(ctx context.Context, f *zkFence, rests map[string]string) {
	for id, path := range rests {
		named, err := l.named(ctx, id, path)
		if err == nil && !named {
			err = l.removeUnnamed(ctx, f, id, path)
		}
		if err != nil {
			l.z.log.Info("store: large values of no use stay for now", "error", err)
			return
		}
	}
}

// removeUnnamed removes a value that no node named a moment ago. A Put that was under way may have named it before it was
// marked; then it stays.
func (l *largeValues) removeUnnamed(ctx context.Context, f *zkFence, id, path string) error {
	if found, err := l.mark(ctx, f, id, path); err != nil || !found {
		return err
	}
	if named, err := l.named(ctx, id, path); err != nil || named {
		return err
	}
	return l.erase(ctx, f, id)
}

// named says whether the node of a path names a value.
func (l *largeValues) named(ctx context.Context, id, path string) (bool, error) {
	if checkPath(path) != nil {
		return false, nil
	}
	n, err := l.z.get(ctx, l.z.node(path))
	return largeID(n.data) == id, err
}
