package store_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/zktest"
	"sluice/scheduler/store"
)

// megabyte is a value that does not fit into a znode.
var megabyte = strings.Repeat("x", 1<<20)

// withLarge runs a test with large values in znodes, and with large values in files.
func withLarge(t *testing.T, test func(b *bed)) {
	t.Parallel()
	for _, large := range []string{"", t.TempDir()} {
		name := "znodes"
		if large != "" {
			name = "files"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newLargeBed(t, zktest.Shared(t), testSession, large))
		})
	}
}

// ids are those of all large values, of which there are files, if they are in files.
func (b *bed) ids() []string {
	b.Helper()
	ids, err := store.LargeValues(b.ctx, b.beside)
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// files are the names in the folder of large values.
func (b *bed) files() []string {
	b.Helper()
	entries, err := os.ReadDir(b.large)
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// wantLarge waits until there is such a number of large values, and no files but theirs.
func (b *bed) wantLarge(n int) []string {
	b.Helper()
	var ids []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ids = b.ids(); len(ids) == n && (b.large == "" || slices.Equal(b.files(), ids)) {
			return ids
		}
	}
	b.Fatalf("large values %q, want %d", ids, n)
	return nil
}

// wantLargeNodes waits until there is such a number of large values, whatever files there are.
func (b *bed) wantLargeNodes(n int) {
	b.Helper()
	for end := time.Now().Add(10 * time.Second); len(b.ids()) != n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("large values %q, want %d", b.ids(), n)
		}
	}
}

// TestLargeValuesGo: what is replaced, removed or was never stored leaves no large value.
func TestLargeValuesGo(t *testing.T) {
	withLarge(t, func(b *bed) {
		v := b.put(b.behind, "a/x", megabyte, 0)
		first := b.wantLarge(1)
		v = b.put(b.beside, "a/x", megabyte+"y", v)
		if second := b.wantLarge(1); second[0] == first[0] {
			t.Errorf("two values have the id %s", first[0])
		}
		b.want("a/x", megabyte+"y", v)
		if _, err := b.behind.Put(b.ctx, "a/x", []byte(megabyte), v+1); !errors.Is(err, store.ErrVersion) {
			t.Errorf("a version that is none: %v", err)
		}
		b.wantLarge(1)
		v = b.put(b.behind, "a/x", "small", v)
		b.wantLarge(0)
		b.put(b.behind, "a/x", megabyte, v)
		b.put(b.behind, "a/y", megabyte, 0)
		b.wantLarge(2)
		if err := b.beside.Delete(b.ctx, "a", 0); err != nil {
			t.Fatal(err)
		}
		b.wantLarge(0)
	})
}

// TestRests: large values that nobody names are removed, those that are named stay.
func TestRests(t *testing.T) {
	withLarge(t, func(b *bed) {
		v := b.put(b.behind, "kept", megabyte, 0)
		v = b.put(b.behind, "kept", megabyte+"y", v)
		for _, path := range []string{"kept", "none"} {
			if err := store.LeavePieces(b.ctx, b.behind, path, []byte(megabyte)); err != nil {
				t.Fatal(err)
			}
		}
		b.wantLarge(3)
		b.lead(b.behind, "")
		b.wantLarge(1)
		b.want("kept", megabyte+"y", v)
	})
}

// TestPiecesRemovedBetween: a large value that was taken for a rest, since no node named it yet, is not named.
func TestPiecesRemovedBetween(t *testing.T) {
	withLarge(t, func(b *bed) {
		b.put(b.behind, "a/x", "there", 0)
		err := store.PutAround(b.ctx, b.behind, "a/large", []byte(megabyte), 0, func() {
			b.lead(b.beside, "")
			b.wantLarge(0)
		})
		if err == nil {
			t.Error("a value without its pieces was stored")
		}
		b.want("a/large", megabyte, b.put(b.behind, "a/large", megabyte, 0))
	})
}

// TestErasedWhileWriting: a leader that stands still before it writes a large value, until the next one has removed it, leaves
// nothing of it.
func TestErasedWhileWriting(t *testing.T) {
	withLarge(t, func(b *bed) {
		v := b.put(b.behind, "x", megabyte, 0)
		err := store.LeavePiecesAround(b.ctx, b.behind, "y", []byte(megabyte), func() {
			b.wantLargeNodes(2)
			b.lead(b.beside, "")
			b.wantLargeNodes(1)
		})
		if err == nil {
			t.Error("a value without its node was written")
		}
		b.wantLarge(1)
		b.want("x", megabyte, v)
	})
}

// TestNamedBetween: a large value that was named by a Put after a leader had seen that no node named it stays, also when
// later leaders look.
func TestNamedBetween(t *testing.T) {
	withLarge(t, func(b *bed) {
		first := b.lead(b.behind, "")
		v := b.put(b.beside, "x", megabyte, 0)
		id := b.wantLarge(1)[0]
		if err := store.RemoveUnnamed(b.ctx, first, id, "x"); err != nil {
			t.Fatal(err)
		}
		b.want("x", megabyte, v)
		rest := store.LeavePieces(b.ctx, b.behind, "none", []byte(megabyte))
		if err := errors.Join(rest, first.Resign()); err != nil {
			t.Fatal(err)
		}
		b.lead(b.beside, "")
		if b.wantLarge(1)[0] != id {
			t.Error("the wrong one was removed")
		}
		b.want("x", megabyte, v)
	})
}

// TestStaleLeaderAndLargeValues: a leader of an earlier term that does not know it neither replaces nor removes large values
// of the present one, nor leaves any.
func TestStaleLeaderAndLargeValues(t *testing.T) {
	withLarge(t, func(b *bed) {
		first := b.lead(b.behind, "first")
		v := b.put(first.Store(), "x", megabyte, 0)
		old := b.wantLarge(1)[0]
		if err := first.Resign(); err != nil {
			t.Fatal(err)
		}
		second := b.lead(b.beside, "second")
		stale := store.Careless(first)
		for _, version := range []int64{v, v + 1, 0} {
			if _, err := stale.Put(b.ctx, "x", []byte(megabyte+"stale"), version); !errors.Is(err, store.ErrNotLeader) {
				t.Errorf("version %d: %v", version, err)
			}
		}
		store.Discard(b.ctx, first, old)
		b.want("x", megabyte, v)
		v = b.put(second.Store(), "x", megabyte+"new", v)
		if err := stale.Delete(b.ctx, "x", v); !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("removal: %v", err)
		}
		store.Discard(b.ctx, first, b.wantLarge(1)[0])
		if err := store.RemoveUnnamed(b.ctx, first, b.ids()[0], "none"); !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("cleaning: %v", err)
		}
		b.wantLarge(1)
		b.want("x", megabyte+"new", v)
	})
}

// TestFolderForLargeValues: what was written to znodes before there was a folder is read, and replaced by a file; whoever has
// no folder is told that one is needed.
func TestFolderForLargeValues(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), testSession)
	root := freshRoot()
	before := b.open(root, zktest.Shared(t))
	v := b.put(before, "x", megabyte, 0)
	b.large = t.TempDir()
	b.beside = b.open(root, zktest.Shared(t))
	b.want("x", megabyte, v)
	v = b.put(b.beside, "x", megabyte+"y", v)
	b.want("x", megabyte+"y", v)
	id := b.wantLarge(1)[0]
	if _, _, err := before.Get(b.ctx, "x"); err == nil || !strings.Contains(err.Error(), "this store was opened without one") {
		t.Errorf("without the folder: %v", err)
	}
	b.large = t.TempDir()
	if _, _, err := b.open(root, zktest.Shared(t)).Get(b.ctx, "x"); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), id) {
		t.Errorf("with another folder: %v", err)
	}
}
