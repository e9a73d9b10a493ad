package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Every changed bit and every missing byte of the last checkpoint is found before its state is used.
func TestDamagedCheckpoint(t *testing.T) {
	dir := filepath.Join(memoryDir(t), "q")
	s := mustOpen(t, dir, Options{})
	must(t, writeCheckpoint(s, 5))
	must(t, writeCheckpoint(s, 20))
	must(t, s.Close())
	folder := s.checkpointPath(20)
	files, err := os.ReadDir(folder)
	must(t, err)
	if len(files) != 3 {
		t.Fatalf("%d files", len(files))
	}
	for _, f := range files {
		path := filepath.Join(folder, f.Name())
		good, err := os.ReadFile(path)
		must(t, err)
		for at := range good {
			bad := slices.Clone(good)
			bad[at] ^= 1 << (at % 8)
			expectDamaged(t, dir, path, bad, "remove "+folder+" to")
			expectDamaged(t, dir, path, good[:at], "remove "+folder+" to go back to checkpoint 5")
		}
		must(t, os.Remove(path))
		expectDamaged(t, dir, path, nil, f.Name())
		must(t, os.WriteFile(path, good, 0o644))
	}
	s = mustOpen(t, dir, Options{})
	if c, err := s.Checkpoint(); err != nil || c.Epoch() != 20 {
		t.Errorf("%v %v", c, err)
	}
}

func expectDamaged(t *testing.T, dir, path string, content []byte, advice string) {
	t.Helper()
	if content != nil {
		must(t, os.WriteFile(path, content, 0o644))
	}
	s, err := Open(dir, Options{})
	must(t, err)
	defer s.Close()
	_, err = s.Checkpoint()
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), advice) {
		t.Errorf("%s: %v", path, err)
	}
}

// A file that is damaged after it was checked gives no false pieces.
func TestPiecesDamagedLater(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "q"), Options{})
	must(t, writeCheckpoint(s, 50))
	c, err := s.Checkpoint()
	must(t, err)
	path := filepath.Join(s.checkpointPath(50), "0000.state")
	good, err := os.ReadFile(path)
	must(t, err)
	for at := range good {
		bad := slices.Clone(good)
		bad[at] ^= 0x80
		must(t, os.WriteFile(path, bad, 0o644))
		err := c.Pieces("x", func(int, []byte) error { t.Errorf("byte %d: a piece", at); return nil })
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	stop := errors.New("stop")
	if err := c.Pieces("y", func(int, []byte) error { return stop }); err != stop {
		t.Errorf("error of the caller: %v", err)
	}
	must(t, c.Pieces("z", func(int, []byte) error { return stop }))
}

// A log that ends before its checkpoint would let rows be counted twice.
func TestLogBehindCheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	s := mustOpen(t, dir, Options{})
	must(t, s.CommitSink("s", 1, nil))
	size := s.log.size
	must(t, s.CommitSink("s", 2, nil))
	must(t, writeCheckpoint(s, 2))
	must(t, s.Close())
	must(t, os.Truncate(s.log.path(1), size))
	s = mustOpen(t, dir, Options{})
	for epoch := range int64(2) {
		if _, err := s.Checkpoint(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%v", err)
		}
		must(t, s.CommitSink("s", 9+epoch, nil)) // new records do not stand in for old ones
	}
}

func TestCheckpointMisuse(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "q"), Options{})
	w, err := s.BeginCheckpoint(3)
	must(t, err)
	op, err := w.Operator("x", "f")
	must(t, err)
	isBug := func(what string, err error) {
		t.Helper()
		if bug := (*AssertionError)(nil); !errors.As(err, &bug) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = s.BeginCheckpoint(3)
	isBug("twice", err)
	_, err = w.Operator("x", "f")
	isBug("operator twice", err)
	_, err = w.Operator("\xff", "f")
	isBug("not UTF-8", err)
	isBug("group", op.Piece(720, nil))
	isBug("group", op.Piece(-2, nil))
	isBug("trim", func() error { must(t, writeCheckpoint(s, 2)); return s.Trim(3) }())
	isBug("complete with an open operator", w.Complete(nil))
	must(t, op.Close())
	isBug("piece after the end", op.Piece(1, nil))
	if err := w.Complete(nil); err != ErrAborted {
		t.Errorf("complete after the end: %v", err)
	}
	if _, err := w.Operator("y", "f"); err != ErrAborted {
		t.Errorf("operator after the end: %v", err)
	}
	must(t, w.Abort())
	_, err = s.BeginCheckpoint(2)
	isBug("below", err)
	late, err := s.BeginCheckpoint(4)
	must(t, err)
	must(t, s.Close())
	if err := late.Complete(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("complete after close: %v", err)
	}
	for _, err := range []error{s.AppendEpoch(Epoch{Source: "a"}), s.CommitSink("s", 1, nil), s.Trim(1), s.SetSpec(nil)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	}
	left := 0
	must(t, filepath.WalkDir(s.checkpointsPath(), func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), temporaryPrefix) {
			left++
		}
		return err
	}))
	if left > 0 {
		t.Errorf("%d folders left", left)
	}
}

// Tasks write one checkpoint, and sources and sinks the log, all at the same time.
func TestConcurrent(t *testing.T) {
	for _, mode := range []FsyncMode{FsyncNever, FsyncAlways, FsyncGrouped} {
		t.Run(fmt.Sprint("fsync=", mode), func(t *testing.T) { concurrent(t, mode) })
	}
}

func concurrent(t *testing.T, mode FsyncMode) {
	dir := filepath.Join(memoryDir(t), "q")
	s := mustOpen(t, dir, Options{Fsync: mode, SegmentSize: 1 << 10})
	const tasks, epochs = 8, 60
	w, err := s.BeginCheckpoint(epochs / 2)
	must(t, err)
	var wg sync.WaitGroup
	for k := range tasks {
		wg.Go(func() {
			op, err := w.Operator(fmt.Sprint("op", k), "f")
			if err != nil {
				t.Error(err)
				return
			}
			for i := range int64(epochs) {
				source := fmt.Sprint("source", k)
				err := errors.Join(s.AppendEpoch(Epoch{Source: source, Epoch: i, Prev: i - 1}),
					s.CommitSink(fmt.Sprint("sink", k), i+1, nil), op.Piece(int(i), []byte(source)))
				if err != nil {
					t.Error(err)
				}
			}
			if err := op.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, w.Complete(nil))
	must(t, s.Trim(epochs/2))
	must(t, s.Close())
	s = mustOpen(t, dir, Options{})
	c, err := s.Checkpoint()
	must(t, err)
	for k := range tasks {
		if n := len(s.Epochs(fmt.Sprint("source", k))); n != epochs/2 {
			t.Errorf("source %d: %d entries", k, n)
		}
		if epoch, _ := s.Sink(fmt.Sprint("sink", k)); epoch != epochs {
			t.Errorf("sink %d: %d", k, epoch)
		}
		n := 0
		must(t, c.Pieces(fmt.Sprint("op", k), func(group int, piece []byte) error {
			if group != n || string(piece) != fmt.Sprint("source", k) {
				t.Errorf("operator %d: group %d is %q", k, group, piece)
			}
			n++
			return nil
		}))
		if n != epochs {
			t.Errorf("operator %d: %d pieces", k, n)
		}
	}
}

func TestDamagedSpec(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "q")
	s := mustOpen(t, dir, Options{})
	must(t, s.SetSpec([]byte("<query/>")))
	must(t, s.Close())
	path := filepath.Join(dir, specFile)
	good, err := os.ReadFile(path)
	must(t, err)
	for at := range good {
		bad := slices.Clone(good)
		bad[at] ^= 0x10
		must(t, os.WriteFile(path, bad, 0o644))
		s, err := Open(dir, Options{})
		if err == nil {
			t.Errorf("byte %d: spec %q", at, s.Spec())
			must(t, s.Close())
		} else if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}
