package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sluice/operators"
)

// syncedWriter is a writer whose commits are to outlive the machine, at its beginning.
func syncedWriter(t *testing.T, dir, path string, ahead func() error) *writer {
	t.Helper()
	w := writerOf(t, dir, path, "csv", -1)
	w.SyncCommits(ahead)
	if _, err := w.Recover(0, nil); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := w.Commit(0, true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	return w
}

func endEpoch(t *testing.T, w *writer, number int64, rows ...int64) {
	t.Helper()
	if len(rows) > 0 {
		if err := w.Process(0, numbers(rows...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.EndEpoch(operators.Mark{Epoch: number, Clock: number}); err != nil {
		t.Fatal(err)
	}
}

// TestSyncedFile: rows of one file are committed where the disk must have them, and epochs without rows at
// once.
func TestSyncedFile(t *testing.T) {
	w := syncedWriter(t, t.TempDir(), "out.csv", func() error { return nil })
	for i, c := range []struct {
		rows []int64
		now  bool
		want bool
	}{
		{nil, false, true}, {[]int64{1}, false, false}, {nil, false, false}, {[]int64{2}, true, true}, {nil, false, true},
	} {
		endEpoch(t, w, int64(i+1), c.rows...)
		if _, ok, err := w.Commit(int64(i+1), c.now); ok != c.want || err != nil {
			t.Errorf("epoch %d is committed: %v, want %v, error %v", i+1, ok, c.want, err)
		}
	}
	if err := w.Close(true); err != nil {
		t.Fatal(err)
	}
}

// TestSyncedPart: the log is on the disk before a part has a name, and if it cannot be, the part gets none.
func TestSyncedPart(t *testing.T) {
	dir := t.TempDir()
	parts := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "out", partPrefix+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	var before []int
	full := errors.New("full")
	var broken error
	w := syncedWriter(t, dir, "out/", func() error {
		before = append(before, parts())
		return broken
	})
	endEpoch(t, w, 1, 1, 2)
	if _, ok, err := w.Commit(1, true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if len(before) != 1 || before[0] != 0 || parts() != 1 {
		t.Errorf("%d parts, and before each sync of the log %v", parts(), before)
	}
	broken = full
	endEpoch(t, w, 2, 3)
	if _, ok, err := w.Commit(2, true); ok || !errors.Is(err, full) || parts() != 1 {
		t.Errorf("%d parts, committed %v, error %v", parts(), ok, err)
	}
	if err := w.Close(false); err != nil {
		t.Fatal(err)
	}
	if hidden, err := os.ReadDir(filepath.Join(dir, "out")); err != nil || len(hidden) != 1 {
		t.Errorf("the folder has %v, error %v", hidden, err)
	}
}
