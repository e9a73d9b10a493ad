package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"sluice/scheduler/store/zkconn"
)

// maxTogether bounds the nodes that are removed at once.
const maxTogether = 100

// subtree is a node with all below it.
type subtree struct {
	root  *zk.Stat // nil if it is not there
	nodes []string // the root first, each before those below it
	large []string // ids of large values
	held  int      // nodes that hold a value
}

func (z *zkStore) subtree(ctx context.Context, node string) (*subtree, error) {
	t := &subtree{}
	stat, err := z.addSubtree(ctx, t, node)
	t.root = stat
	return t, err
}

// addSubtree adds a node with all below it. What goes away meanwhile is left out.
func (z *zkStore) addSubtree(ctx context.Context, t *subtree, node string) (*zk.Stat, error) {
	names, stat, err := z.children(ctx, node)
	if err != nil || stat == nil {
		return nil, err
	}
	t.nodes = append(t.nodes, node)
	if held(stat) > 0 {
		t.held++
	}
	if stat.DataLength > 0 && stat.DataLength <= maxReference {
		n, err := z.get(ctx, node)
		if err != nil {
			return nil, err
		}
		if id := largeID(n.data); id != "" {
			t.large = append(t.large, id)
		}
	}
	for _, name := range names {
		if _, err := z.addSubtree(ctx, t, node+"/"+name); err != nil {
			return nil, err
		}
	}
	return stat, nil
}

// Delete implements Store.
func (z *zkStore) Delete(ctx context.Context, path string, version int64) error {
	return z.remove(ctx, nil, path, version)
}

func (z *zkStore) remove(ctx context.Context, f *zkFence, path string, version int64) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if err := z.sync(ctx); err != nil {
		return err
	}
	uncertain := false
	for {
		deletions := z.deletions.Load()
		t, err := z.subtree(ctx, z.node(path))
		if err != nil {
			return err
		}
		if t.held == 0 || held(t.root) != version {
			return z.notRemoved(ctx, f, path, version, t, uncertain)
		}
		done, err := z.removeSubtree(ctx, f, t, deletions)
		if zkconn.Uncertain(err) {
			uncertain = true
			err = z.pause(ctx)
		}
		if done || err != nil {
			return err
		}
	}
}

// notRemoved says why there was nothing to remove.
func (z *zkStore) notRemoved(ctx context.Context, f *zkFence, path string, version int64, t *subtree, uncertain bool) error {
	if err := f.verify(ctx); err != nil {
		return err
	}
	switch {
	case t.held == 0 && uncertain:
		return nil // an attempt without an answer has done it
	case t.held == 0:
		return fmt.Errorf("%w: %q", ErrNotFound, path)
	case uncertain:
		return fmt.Errorf("store: %q: %w", path, errUncertain)
	}
	return fmt.Errorf("%w: %q has version %d, not %d", ErrVersion, path, held(t.root), version)
}

// removeSubtree removes the nodes, the deepest first. It is not done if something has changed meanwhile.
func (z *zkStore) removeSubtree(ctx context.Context, f *zkFence, t *subtree, deletions int32) (done bool, err error) {
	nodes := slices.Clone(t.nodes)
	slices.Reverse(nodes)
	for batch := range slices.Chunk(nodes, maxTogether) {
		operations := []any{&zk.SetDataRequest{Path: z.in(zkDeletions), Version: deletions}}
		root := t.nodes[0]
		if batch[len(batch)-1] != root {
			operations = append(operations, &zk.CheckVersionRequest{Path: root, Version: t.root.Version})
		}
		for _, node := range batch {
			version := int32(-1)
			if node == root {
				version = t.root.Version
			}
			operations = append(operations, &zk.DeleteRequest{Path: node, Version: version})
		}
		answers, err := z.multi(ctx, f, operations...)
		var refused *multiError
		if errors.As(err, &refused) && !errors.Is(err, zk.ErrNoAuth) {
			return false, z.seeDeletions(ctx)
		}
		if zkconn.Uncertain(err) {
			return false, err
		}
		if err != nil {
			return false, callError(root, err)
		}
		deletions = answers[0].Stat.Version
		z.deletions.Store(deletions)
	}
	for _, id := range t.large {
		z.large.discard(ctx, f, id)
	}
	z.prune(ctx, f, parent(t.nodes[0]))
	return true, nil
}

func parent(node string) string { return node[:strings.LastIndexByte(node, '/')] }

// prune removes nodes that hold nothing, upwards. Where that fails they stay, and List passes over them.
func (z *zkStore) prune(ctx context.Context, f *zkFence, node string) {
	for ; node != z.in(zkValues); node = parent(node) {
		stat, err := z.stat(ctx, node)
		if err != nil || stat == nil || stat.NumChildren > 0 || stat.DataLength > 0 {
			return
		}
		// Version 0: it has never held a value.
		if _, err := z.multi(ctx, f, &zk.DeleteRequest{Path: node, Version: stat.Version}); err != nil {
			return
		}
	}
}

// List implements Store.
func (z *zkStore) List(ctx context.Context, path string) ([]string, error) {
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	if err := z.sync(ctx); err != nil {
		return nil, err
	}
	node := z.node(path)
	names, _, err := z.children(ctx, node)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range names {
		found, err := z.holds(ctx, node+"/"+name)
		if err != nil {
			return nil, err
		}
		if found {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list, nil
}

// holds says whether a node holds a value or has one below.
func (z *zkStore) holds(ctx context.Context, node string) (bool, error) {
	stat, err := z.stat(ctx, node)
	if err != nil || stat == nil {
		return false, err
	}
	if stat.DataLength > 0 || stat.NumChildren == 0 {
		return stat.DataLength > 0, nil
	}
	names, _, err := z.children(ctx, node)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if found, err := z.holds(ctx, node+"/"+name); found || err != nil {
			return found, err
		}
	}
	return false, nil
}
