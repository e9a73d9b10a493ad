package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/operators"
)

func writerOf(t fatal, dir, path, format string, limit int64) *writer {
	t.Helper()
	op := &dataflow.Operator{Name: "sink", Desc: Writer, Inputs: []dataflow.Input{{Schema: numberSchema}},
		Params: []dataflow.Param{{Name: "path", Value: path}, {Name: "format", Value: format}}}
	w, err := OpenWriter(&operators.Context{Op: op, Counters: &operators.Counters{}, Dir: dir}, WriterOptions{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return w.(*writer)
}

// epoch is what a sink is given in one epoch.
type epoch struct {
	number, clock int64
	batches       [][]int64
	boundary      bool
}

func drawEpochs(t *rapid.T) []epoch {
	var epochs []epoch
	number, row, clock := int64(0), int64(0), int64(1_000_000_000)
	for range rapid.IntRange(0, 15).Draw(t, "epochs") {
		number += rapid.Int64Range(1, 3).Draw(t, "skip")
		clock += rapid.SampledFrom([]int64{1000, 4_000_000}).Draw(t, "time")
		e := epoch{number: number, clock: clock}
		e.boundary = rapid.IntRange(0, 3).Draw(t, "boundary") == 0
		for range rapid.IntRange(0, 2).Draw(t, "batches") {
			var b []int64
			for range rapid.SampledFrom([]int{1, 3, 2000}).Draw(t, "rows") {
				b = append(b, row)
				row++
			}
			e.batches = append(e.batches, b)
		}
		epochs = append(epochs, e)
	}
	return append(epochs, epoch{number: number + 1, clock: clock + 1000, boundary: true})
}

// errDied is what ends a process of sinkLife.
var errDied = errors.New("the process has died")

// sinkLife is a sink over all of its processes, and what is recorded of its commits.
type sinkLife struct {
	open    func() *writer
	epoch   int64
	witness []byte
	dies    func() bool // asked between any two steps
}

func (l *sinkLife) step(err error, done *bool) error {
	if errors.Is(err, operators.ErrDone) {
		*done, err = true, nil
	}
	if err == nil && l.dies() {
		return errDied
	}
	return err
}

// process runs one process until it dies or all epochs are committed.
func (l *sinkLife) process(epochs []epoch) (*writer, error) {
	w, done := l.open(), false
	visible, err := w.Recover(l.epoch, l.witness)
	if err := l.step(err, &done); err != nil {
		return w, err
	}
	if l.witness == nil {
		if err := l.commit(w, 0, true, &done); err != nil {
			return w, err
		}
	}
	for _, e := range epochs {
		if e.number <= visible {
			continue
		}
		for _, b := range e.batches {
			if !done {
				if err := l.step(w.Process(0, numbers(b...)), &done); err != nil {
					return w, err
				}
			}
		}
		if !done {
			if err := l.step(w.EndEpoch(operators.Mark{Epoch: e.number, Clock: e.clock}), &done); err != nil {
				return w, err
			}
		}
		if err := l.commit(w, e.number, e.boundary, &done); err != nil {
			return w, err
		}
	}
	return w, w.Close(true)
}

func (l *sinkLife) commit(w *writer, number int64, now bool, done *bool) error {
	witness, ok, err := w.Commit(number, now)
	if now && !ok && err == nil {
		return fmt.Errorf("epoch %d is not committed", number)
	}
	if err := l.step(err, done); err != nil {
		return err
	}
	if ok {
		l.epoch, l.witness = number, witness
	}
	return nil
}

// contents are the files of a folder, hidden ones too.
func contents(t fatal, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := strings.CutPrefix(path, dir)
		files = append(files, name+": "+string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func tempDir(t fatal, root string) string {
	t.Helper()
	dir, err := os.MkdirTemp(root, "")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSinkLives: whenever processes die, the output is that of one which has lived to the end.
func TestSinkLives(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path, format := "out.csv", "csv"
		switch rapid.IntRange(0, 2).Draw(t, "output") {
		case 1:
			path, format = "out.ndjson", "ndjson"
		case 2:
			path, format = "out/", rapid.SampledFrom(formats).Draw(t, "format")
		}
		limit := rapid.SampledFrom([]int64{-1, -1, 0, 2, 2001}).Draw(t, "limit")
		epochs := drawEpochs(t)

		calm := tempDir(t, root)
		whole := &sinkLife{open: func() *writer { return writerOf(t, calm, path, format, limit) }, dies: func() bool { return false }}
		if _, err := whole.process(epochs); err != nil {
			t.Fatal(err)
		}
		rough := tempDir(t, root)
		often := rapid.SampledFrom([]int{2, 5, 15}).Draw(t, "dies once in")
		synced := rapid.IntRange(0, 4).Draw(t, "synced") == 0
		life := &sinkLife{open: func() *writer {
			w := writerOf(t, rough, path, format, limit)
			if synced {
				w.SyncCommits(func() error { return nil })
			}
			return w
		}}
		for processes := 0; ; processes++ {
			life.dies = func() bool { return processes < 20 && rapid.IntRange(1, often).Draw(t, "dies") == 1 }
			w, err := life.process(epochs)
			if err == nil {
				break
			}
			if !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "closed") { // it has failed, and had the time to tidy up
				if err := w.Close(false); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, want := contents(t, rough), contents(t, calm); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if err := errors.Join(os.RemoveAll(calm), os.RemoveAll(rough)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDurableOutput: what a durable writer has written in the end is what another one writes.
func TestDurableOutput(t *testing.T) {
	epochs := []epoch{{number: 1, batches: [][]int64{{1, 2}}}, {number: 2}, {number: 3, batches: [][]int64{{3}}, boundary: true}}
	for _, epochs := range [][]epoch{epochs, {{number: 1, boundary: true}}} {
		for _, path := range []string{"a.csv", "a.ndjson"} {
			durable, plain := t.TempDir(), t.TempDir()
			l := &sinkLife{open: func() *writer { return writerOf(t, durable, path, path[2:], -1) }, dies: func() bool { return false }}
			if _, err := l.process(epochs); err != nil {
				t.Fatal(err)
			}
			w := writerOf(t, plain, path, path[2:], -1)
			for _, e := range epochs {
				for _, b := range e.batches {
					if err := w.Process(0, numbers(b...)); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.EndEpoch(operators.Mark{Epoch: e.number}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(true); err != nil {
				t.Fatal(err)
			}
			if got, want := contents(t, durable), contents(t, plain); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
	}
}

// oneCommit gives the witness of a sink that has written and committed one row in epoch 5.
func oneCommit(t *testing.T, dir, path, format string) []byte {
	t.Helper()
	l := &sinkLife{open: func() *writer { return writerOf(t, dir, path, format, -1) }, dies: func() bool { return false }}
	if _, err := l.process([]epoch{{number: 5, batches: [][]int64{{1}}, boundary: true}}); err != nil {
		t.Fatal(err)
	}
	return l.witness
}

func TestOutputsThatHaveChanged(t *testing.T) {
	for _, c := range []struct {
		name, path string
		change     func(dir string) error
		want       string
	}{
		{"cut", "a.csv", func(dir string) error { return os.Truncate(filepath.Join(dir, "a.csv"), 1) }, "has 1 bytes, but 4 have been committed"},
		{"gone", "a.csv", func(dir string) error { return os.Remove(filepath.Join(dir, "a.csv")) }, "has 0 bytes, but 4 have been committed"},
		{"grown", "a.csv", func(dir string) error { return appendTo(filepath.Join(dir, "a.csv"), "xx") }, ""},
		{"parts gone", "a/", func(dir string) error {
			return os.Remove(filepath.Join(dir, "a/part-000000000001-000000000005.csv"))
		}, ""},
		{"foreign part", "a/", func(dir string) error {
			return appendTo(filepath.Join(dir, "a/part-000000000007-000000000009.csv"), "n\n1\n")
		}, "part-000000000007-000000000009.csv, but the state knows of parts up to epoch 5 only"},
		{"foreign file", "a/", func(dir string) error { return appendTo(filepath.Join(dir, "a/part-1.parquet"), "") }, "holds part-1.parquet, which this query has not written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			witness := oneCommit(t, dir, c.path, "csv")
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			w := writerOf(t, dir, c.path, "csv", -1)
			visible, err := w.Recover(5, witness)
			if c.want == "" && (err != nil || visible != 5) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("visible up to %d, %v; want %q", visible, err, c.want)
			}
			if err := w.Close(false); err != nil {
				t.Fatal(err)
			}
			if files := contents(t, dir); c.name == "grown" && !slices.Equal(files, []string{"/a.csv: n\n1\n"}) {
				t.Errorf("%q", files)
			}
		})
	}
}

// TestAdoptedParts: parts that follow what was recorded are kept, and their rows count.
func TestAdoptedParts(t *testing.T) {
	dir := t.TempDir()
	witness := oneCommit(t, dir, "a/", "parquet")
	w := writerOf(t, dir, "a/", "parquet", 10)
	if _, err := w.Recover(5, witness); err != nil {
		t.Fatal(err)
	}
	for n := range int64(2) {
		if err := w.Process(0, numbers(2, 3)); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := w.Commit(8+n, true); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	w = writerOf(t, dir, "a/", "parquet", 10)
	visible, err := w.Recover(5, witness)
	if err != nil || visible != 9 || w.rows != 5 || w.limit != 5 {
		t.Errorf("visible up to %d with %d rows and %d left, %v", visible, w.rows, w.limit, err)
	}
}

// TestFreshState: a new state writes over a file, but not into a folder with parts.
func TestFreshState(t *testing.T) {
	dir := t.TempDir()
	oneCommit(t, dir, "a.csv", "csv")
	oneCommit(t, dir, "a.csv", "csv")
	if files := contents(t, dir); !slices.Equal(files, []string{"/a.csv: n\n1\n"}) {
		t.Errorf("%q", files)
	}
	oneCommit(t, dir, "a/", "csv")
	if _, err := writerOf(t, dir, "a/", "csv", -1).Recover(0, nil); err == nil || !strings.Contains(err.Error(), "already holds part files") {
		t.Errorf("a folder with parts and a new state: %v", err)
	}
}

func TestWitnesses(t *testing.T) {
	witness := oneCommit(t, t.TempDir(), "a.csv", "csv")
	for _, x := range [][]byte{nil, {oneFile}, append(slices.Clone(witness), 0), {'?', 1, 2, 3}, {partFiles, 1, 2, 3}} {
		w := writerOf(t, t.TempDir(), "a.csv", "csv", -1)
		if _, err := w.Recover(5, x); err == nil {
			t.Errorf("witness %q was taken", x)
		}
		if err := w.Close(false); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckDurable(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path, format string
		ok           bool
	}{{"a.csv", "", true}, {"a.ndjson", "", true}, {"a.parquet", "", false}, {"a.arrow", "", false}, {"a/", "parquet", true}, {"-", "arrow", true}, {"/dev/null", "arrow", true}} {
		op := &dataflow.Operator{Desc: Writer, Params: []dataflow.Param{{Name: "path", Value: c.path}, {Name: "format", Value: c.format}}, Inputs: []dataflow.Input{{Schema: numberSchema}}}
		err := CheckDurable(op, dir)
		var input *operators.InputError
		if (err == nil) != c.ok || err != nil && !errors.As(err, &input) {
			t.Errorf("%s: %v", c.path, err)
		}
		if c.ok {
			continue
		}
		w, err := OpenWriter(&operators.Context{Op: op, Dir: dir}, WriterOptions{Limit: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.(*writer).Recover(0, nil); err == nil {
			t.Errorf("%s: Recover has taken it", c.path)
		}
	}
	if files := contents(t, dir); files != nil {
		t.Errorf("left over: %q", files)
	}
}

// TestDurableStream: what has been passed on is not taken back, and the header comes once.
func TestDurableStream(t *testing.T) {
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	os.Stdout = f
	l := &sinkLife{open: func() *writer { return writerOf(t, "", "-", "csv", 3) }, dies: func() bool { return false }}
	for n := range int64(3) {
		if _, err := l.process([]epoch{{number: n + 1, batches: [][]int64{{10 * n, 10*n + 1}}, boundary: true}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "n\n0\n1\n10\n" {
		t.Errorf("%q, %v", got, err)
	}
}
