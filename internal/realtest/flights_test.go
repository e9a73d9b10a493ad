package realtest

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestFlights runs the example of the documentation, and kills each worker once.
func TestFlights(t *testing.T) {
	t.Parallel()
	example := filepath.Join("..", "..", "examples", "flights")
	dir, err := os.MkdirTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	want := readRows(t, filepath.Join(dir, "expected.csv"))
	if err := os.Remove(filepath.Join(dir, "expected.csv")); err != nil {
		t.Fatal(err)
	}
	r := startRun(t, dir, filepath.Join(dir, "state"), "--nodes", "3", "--checkpoint", "100ms", "--set", "sink.path=out.csv", "--set", "source.rate=8000", filepath.Join(dir, "flights.xml"))
	for i := range 3 {
		s := r.await("all run", on(3))
		victim := s.workers()[i%len(s.workers())]
		s.signal(t, victim, syscall.SIGKILL)
		r.await("it is replaced", func(now status) bool { return now.pids[victim] == 0 && on(3)(now) })
	}
	r.finish()
	got := readRows(t, filepath.Join(dir, "out.csv"))
	if !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d, in this order", len(got), len(want))
	}
}
