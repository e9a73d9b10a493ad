package file

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTail: however bytes are written, the end of them is the same as that of the file.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	rapid.Check(t, func(t *rapid.T) {
		var got tail
		var all []byte
		for i := range rapid.IntRange(0, 20).Draw(t, "writes") {
			p := bytes.Repeat([]byte{byte(i), byte(i + 1)}, rapid.SampledFrom([]int{0, 1, 700, tailSize/2 - 1, tailSize / 2, tailSize, 3 * tailSize}).Draw(t, "pairs"))
			got.add(p)
			all = append(all, p...)
		}
		if err := os.WriteFile(path, append(slices.Clone(all), "not committed"...), 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := readTail(path, int64(len(all)))
		want := all[max(0, len(all)-tailSize):]
		if err != nil || !bytes.Equal(got.last(), want) || !bytes.Equal(read.last(), want) || got.sum() != read.sum() {
			t.Fatalf("%v: of %d bytes the last are %d, and %d are read", err, len(all), len(got.last()), len(read.last()))
		}
	})
}

func okay(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stopped is a query that has written some rows, and then stands still; with no rows only the header is committed.
func stopped(t *testing.T, dir string, rows int) []byte {
	t.Helper()
	w, err := begin(t, dir, "sink", "out.csv", "first")
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Process(0, numbers(int64(1000+i))); err != nil {
			t.Fatal(err)
		}
	}
	witness, ok, err := w.Commit(1, true)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := w.Close(false); err != nil {
		t.Fatal(err)
	}
	return witness
}

// run is one that ends, and gives its file the name.
func run(t *testing.T, dir string, rows ...int64) {
	t.Helper()
	w, err := sinkOf(dir, "sink", "out.csv", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Process(0, numbers(rows...)), w.Close(true)); err != nil {
		t.Fatal(err)
	}
}

// TestRewrittenOutput: a query that goes on takes no row from what has written its file meanwhile, and does go on where
// it was killed, or its file put back.
func TestRewrittenOutput(t *testing.T) {
	path := func(dir string) string { return filepath.Join(dir, "out.csv") }
	many := slices.Repeat([]int64{2000}, 5000)
	for _, c := range []struct {
		name   string
		rows   int
		change func(dir string)
		taken  bool
	}{
		{"nothing", 1, func(string) {}, false},
		{"a longer run", 1, func(dir string) { run(t, dir, 8, 9, 10, 11) }, true},
		{"a longer run of rows as long", 3000, func(dir string) { run(t, dir, many...) }, true},
		{"a run behind a header", 0, func(dir string) { run(t, dir, 8, 9) }, true},
		{"a run without rows behind a header", 0, func(dir string) { run(t, dir) }, false},
		{"a run of the same rows and more", 1, func(dir string) { run(t, dir, 1000, 1001) }, false},
		{"another query", 1, func(dir string) {
			w, err := begin(t, dir, "sink", "out.csv", "second")
			if err == nil {
				err = w.Process(0, numbers(1, 2, 3))
			}
			if err == nil {
				_, _, err = w.Commit(1, true)
			}
			if err = errors.Join(err, w.Close(true)); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"killed before a commit", 1, func(dir string) { okay(t, appendTo(path(dir), "1001\n10")) }, false},
		{"killed before the first rows are committed", 0, func(dir string) { okay(t, appendTo(path(dir), "1001\n10")) }, false},
		{"put back", 1, func(dir string) {
			b, err := os.ReadFile(path(dir))
			okay(t, err)
			run(t, dir, 8, 9)
			okay(t, os.Remove(path(dir)))
			okay(t, os.WriteFile(path(dir), b, 0o644))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			witness := stopped(t, dir, c.rows)
			committed := contents(t, dir)
			c.change(dir)
			changed := contents(t, dir)
			w, err := sinkOf(dir, "sink", "out.csv", "first")
			okay(t, err)
			_, err = w.Recover(1, witness)
			if errors.Is(err, errRewritten) != c.taken || err != nil && !c.taken {
				t.Errorf("%v, want refused %v", err, c.taken)
			}
			if c.taken && !strings.Contains(err.Error(), path(dir)) {
				t.Errorf("%v does not name the file", err)
			}
			want := committed
			if c.taken {
				want = changed
			}
			okay(t, w.Close(false))
			if got := contents(t, dir); !slices.Equal(got, want) {
				t.Errorf("the folder holds %.200q, want %.200q", got, want)
			}
		})
	}
}

// TestOldWitness: what earlier versions have recorded is still understood, and says nothing of the end.
func TestOldWitness(t *testing.T) {
	dir := t.TempDir()
	stopped(t, dir, 1)
	run(t, dir, 8000, 9) // "n\n1000\n" and "n\n8000\n" have one length
	w, err := sinkOf(dir, "sink", "out.csv", "first")
	okay(t, err)
	if _, err := w.Recover(1, []byte{oneFileOld, 1, 7, 0}); err != nil || w.Written() != 1 {
		t.Fatalf("%d rows, %v", w.Written(), err)
	}
	okay(t, w.Process(0, numbers(7)))
	witness, ok, err := w.Commit(2, true)
	if err != nil || !ok || witness[0] != oneFile {
		t.Fatalf("%q, %v, %v", witness, ok, err)
	}
	okay(t, w.Close(true))
	if got := contents(t, dir); !slices.Equal(got, []string{"/out.csv: n\n8000\n7\n"}) {
		t.Errorf("%q", got)
	}
	run(t, dir, 8000, 8, 9)
	w, err = sinkOf(dir, "sink", "out.csv", "first")
	okay(t, err)
	if _, err := w.Recover(2, witness); !errors.Is(err, errRewritten) {
		t.Errorf("the next commit: %v", err)
	}
	for _, bad := range [][]byte{{oneFileOld, 1, 7}, {oneFileOld, 1, 7, 0, 0}, witness[:len(witness)-1], append(slices.Clone(witness), 0), {oneFile, 1, 7, 0}} {
		w, err := sinkOf(dir, "sink", "out.csv", "first")
		okay(t, err)
		if _, err := w.Recover(2, bad); err == nil || errors.Is(err, errRewritten) {
			t.Errorf("witness %q: %v", bad, err)
		}
		okay(t, w.Close(false))
	}
}
