package shared

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/executor/state"
)

// TestUnused: a directory is unused as long as only Open has been there.
func TestUnused(t *testing.T) {
	unused := func(dir string, want bool) {
		t.Helper()
		if got, err := Unused(dir); got != want || err != nil {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	dir := t.TempDir()
	unused(dir, true)
	s, err := Open(dir, Options{Coordinator: true, Fsync: state.FsyncNever})
	must(t, err)
	unused(dir, true)
	must(t, os.WriteFile(filepath.Join(dir, tmpDir, "half"), []byte("x"), 0o666))
	unused(dir, true)
	_, _ = source(t, s, 1)
	unused(dir, false)

	other := t.TempDir()
	must(t, os.WriteFile(filepath.Join(other, "mine.csv"), nil, 0o666))
	unused(other, false)
	if got, err := Unused(filepath.Join(dir, "none")); got || err == nil {
		t.Errorf("a directory that is not there: %v, %v", got, err)
	}
}
