package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sluice/operators"
)

// chainEpochs are the epochs 1 to n, with one row each: the number of the epoch.
func chainEpochs(n int64) []int64 {
	var epochs []int64
	for e := range n {
		epochs = append(epochs, e+1)
	}
	return epochs
}

// zombie is a writer whose every step, also inside a commit, can be the last before another one goes on. It
// publishes a part every `group` epochs.
type zombie struct {
	w        *writer
	recorded int64 // the last commit that has been recorded
	witness  []byte
	err      error // what ended it
}

func (z *zombie) start() error {
	if _, err := z.w.Recover(0, nil); err != nil {
		return err
	}
	witness, _, err := z.w.Commit(0, true)
	z.witness = witness
	return err
}

// steps are what the zombie does, in order.
func (z *zombie) steps(epochs []int64, group int64) []func() error {
	var steps []func() error
	for _, e := range epochs {
		steps = append(steps,
			func() error { return z.w.Process(0, numbers(e)) },
			func() error { return z.w.EndEpoch(operators.Mark{Epoch: e, Clock: 1}) })
		if e%group != 0 {
			continue
		}
		tmp := func() *os.File { return z.w.parts.size.target.(*fileTarget).f }
		steps = append(steps, // those of Commit
			func() error { return z.w.enc.Finish() },
			func() error { z.w.enc = nil; return tmp().Close() },
			func() error { return z.w.parts.link(tmp().Name()) },
			func() error { return z.w.parts.drop(tmp().Name()) },
			func() error {
				witness, ok, err := z.w.Commit(e, true)
				if err == nil && ok {
					z.recorded, z.witness = e, witness
				}
				return err
			})
	}
	return steps
}

// run takes steps until one fails.
func (z *zombie) run(steps []func() error) {
	for _, step := range steps {
		if z.err == nil {
			z.err = step()
		}
	}
}

// goOn recovers a writer and lets it write all epochs that are not visible, a part every `group` epochs;
// between is called before each of its own commits.
func goOn(w *writer, recorded int64, witness []byte, epochs []int64, group int64, between func()) error {
	visible, err := w.Recover(recorded, witness)
	if err != nil {
		return err
	}
	for _, e := range epochs {
		if e <= visible {
			continue
		}
		err := errors.Join(w.Process(0, numbers(e)), w.EndEpoch(operators.Mark{Epoch: e, Clock: 1}))
		if err != nil {
			return err
		}
		between()
		if _, _, err := w.Commit(e, e%group == 0 || e == epochs[len(epochs)-1]); err != nil {
			return err
		}
	}
	return w.Close(true)
}

// checkChain wants the parts of a folder to cover the epochs without a gap or an overlap, and each row once.
func checkChain(t fatal, dir string, epochs []int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	next, rows := int64(1), map[string]int{}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") {
			t.Fatalf("left over: %s", f.Name())
		}
		var first, last int64
		if _, err := fmt.Sscanf(f.Name(), "part-%d-%d.csv", &first, &last); err != nil || first != next {
			t.Fatalf("%s where one from %d on is due (%v)", f.Name(), next, err)
		}
		next = last + 1
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range strings.Fields(string(data))[1:] {
			rows[row]++
		}
	}
	for _, e := range epochs {
		if rows[fmt.Sprint(e)] != 1 {
			t.Fatalf("the row of epoch %d is there %d times", e, rows[fmt.Sprint(e)])
		}
	}
	if next != epochs[len(epochs)-1]+1 || len(rows) != len(epochs) {
		t.Fatalf("the parts go up to epoch %d and have %d rows", next-1, len(rows))
	}
}

// TestZombieAtEveryStep: wherever a writer stands when another one goes on, and whenever it wakes up
// then, the parts are a chain and every row is there once.
func TestZombieAtEveryStep(t *testing.T) {
	epochs := chainEpochs(6)
	count := len((&zombie{}).steps(epochs, 2))
	for stops := range count + 1 {
		for _, wakes := range []int{0, 1, 3} { // before which epoch of the successor
			for _, group := range []int64{1, 3} {
				dir := filepath.Join(t.TempDir(), "out")
				z := &zombie{w: writerOf(t, dir, "./", "csv", -1)}
				if err := z.start(); err != nil {
					t.Fatal(err)
				}
				steps := z.steps(epochs, 2)
				z.run(steps[:stops])
				recorded, witness, turn := z.recorded, z.witness, 0
				err := goOn(writerOf(t, dir, "./", "csv", -1), recorded, witness, epochs, group, func() {
					if turn == wakes {
						z.run(steps[stops:])
					}
					turn++
				})
				if err != nil {
					t.Fatalf("stops before step %d: the successor: %v", stops, err)
				}
				z.run(steps[stops:])
				if z.err != nil && !errors.Is(z.err, operators.ErrFenced) {
					t.Fatalf("stops before step %d: the zombie ended with %v", stops, z.err)
				}
				if err := z.w.Close(false); err != nil && !errors.Is(err, os.ErrClosed) {
					t.Fatal(err)
				}
				checkChain(t, dir, epochs)
			}
		}
	}
}

// TestFenced: a writer whose output another one has gone on with is told so, and cannot undo it.
func TestFenced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	z := &zombie{w: writerOf(t, dir, "./", "csv", -1)}
	if err := z.start(); err != nil {
		t.Fatal(err)
	}
	if err := z.w.Process(0, numbers(1)); err != nil {
		t.Fatal(err)
	}
	if err := goOn(writerOf(t, dir, "./", "csv", -1), 0, z.witness, []int64{1, 2}, 1, func() {}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := z.w.Commit(1, true); !errors.Is(err, operators.ErrFenced) {
		t.Errorf("the commit of a writer that has been replaced: %v", err)
	}
	if err := z.w.Process(0, numbers(2)); !errors.Is(err, operators.ErrFenced) {
		t.Errorf("rows for a writer that has been replaced: %v", err)
	}
	if err := z.w.Close(false); err != nil {
		t.Error(err)
	}
	checkChain(t, dir, []int64{1, 2})
}

// TestRacingWriters: writers that go on in each other's place all at once never publish an overlap. Each
// one sees what is recorded as of its start, at worst nothing.
func TestRacingWriters(t *testing.T) {
	epochs := chainEpochs(20)
	for range 8 {
		dir := filepath.Join(t.TempDir(), "out")
		z := &zombie{w: writerOf(t, dir, "./", "csv", -1)}
		if err := z.start(); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for n := range 4 {
			w := writerOf(t, dir, "./", "csv", -1)
			all.Go(func() {
				err := goOn(w, 0, z.witness, epochs, int64(n+1), func() {})
				if err != nil && !errors.Is(err, operators.ErrFenced) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := goOn(writerOf(t, dir, "./", "csv", -1), 0, z.witness, epochs, 5, func() {}); err != nil {
			t.Fatal(err)
		}
		checkChain(t, dir, epochs)
	}
}
