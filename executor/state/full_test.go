package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// smallDisk mounts a file system of some KiB.
func smallDisk(t *testing.T, kib int) string {
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, 0)) })
	return dir
}

// fill takes all room there is, until what it returns is called.
func fill(t *testing.T, dir string) (free func()) {
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	must(t, f.Close())
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() { must(t, os.Remove(path)) }
}

func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, 256)
	dir := filepath.Join(disk, "q")
	s, err := Open(dir, Options{SegmentSize: 8 << 10})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	m, failures := newModel(), 0
	appendTo := func(i int64) error {
		e := Epoch{Source: "a", Epoch: i, Prev: i - 1, Position: bytes.Repeat([]byte("p"), 100)}
		err := s.AppendEpoch(e)
		if err == nil {
			m.append(e)
		}
		return err
	}
	free := func() {}
	for i := int64(1); i < 400; i++ {
		if i%100 == 10 {
			free = fill(t, disk)
		}
		err := appendTo(i)
		if err == nil {
			continue
		}
		failures++
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if failures%2 == 0 {
			must(t, s.Close())
			s, err = Open(dir, Options{SegmentSize: 8 << 10})
			must(t, err)
		}
		free()
		free = func() {}
		if d := m.diff(s); d != "" {
			t.Fatal(d)
		}
		must(t, appendTo(i))
	}
	if failures < 3 {
		t.Errorf("the disk was full %d times", failures)
	}
}

func TestFullDiskCheckpoint(t *testing.T) {
	disk := smallDisk(t, 256)
	s, err := Open(filepath.Join(disk, "q"), Options{})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	must(t, s.SetSpec([]byte("first")))
	must(t, writeCheckpoint(s, 1))
	w, err := s.BeginCheckpoint(2)
	must(t, err)
	op, err := w.Operator("x", "f")
	must(t, err)
	err = errors.Join(op.Piece(1, make([]byte, 1<<20)), op.Close())
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("piece: %v", err)
	}
	if err := w.Complete(nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("complete: %v", err)
	}
	must(t, w.Abort())
	if err := s.SetSpec(make([]byte, 1<<20)); !errors.Is(err, syscall.ENOSPC) || string(s.Spec()) != "first" {
		t.Errorf("spec %q: %v", s.Spec(), err)
	}
	c, err := s.Checkpoint()
	must(t, err)
	if c.Epoch() != 1 {
		t.Errorf("checkpoint %d", c.Epoch())
	}
	must(t, writeCheckpoint(s, 2))
	must(t, s.Trim(2))
}

// faultyFile fails as a plan says.
type faultyFile struct {
	segmentFile
	plan *faults
}

type faults struct {
	write    int // bytes that the next write gets done before it fails; -1: all
	truncate bool
	sync     bool
}

var errFault = errors.New("fault")

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if n := f.plan.write; n >= 0 {
		n = min(n, len(b)-1)
		if _, err := f.segmentFile.WriteAt(b[:n], at); err != nil {
			return 0, err
		}
		return n, errFault
	}
	return f.segmentFile.WriteAt(b, at)
}

func (f faultyFile) Truncate(size int64) error {
	if f.plan.truncate {
		return errFault
	}
	return f.segmentFile.Truncate(size)
}

func (f faultyFile) Sync() error {
	if f.plan.sync {
		return errFault
	}
	return f.segmentFile.Sync()
}

func faulty(plan *faults) func(path string) (segmentFile, error) {
	return func(path string) (segmentFile, error) {
		f, err := createSegment(path)
		return faultyFile{f, plan}, err
	}
}

// Writes that fail half-way, and cannot even be undone, leave no trace.
func TestFaultyWrites(t *testing.T) {
	root, runs := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir, plan := fmt.Sprintf("%s/%d", root, runs), &faults{write: -1}
		opts := Options{SegmentSize: 1 << 10, create: faulty(plan)}
		s, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		m := newModel()
		for i := range int64(rapid.IntRange(1, 60).Draw(t, "n")) {
			*plan = faults{write: rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 8, 20, 1000}).Draw(t, "write"), truncate: rapid.Bool().Draw(t, "truncate")}
			e := drawEpoch(t, "a", m.last("a"))
			if err := s.AppendEpoch(e); err == nil {
				m.append(e)
			} else if !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			c := modelCommit{i + 1, "witness"}
			if err := s.CommitSink("s", c.epoch, []byte(c.witness)); err == nil {
				m.commits["s"] = c
			} else if !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			if i%10 == 9 {
				if err := s.Trim(max(0, e.Epoch-3)); err == nil {
					m.trim(max(0, e.Epoch-3))
				} else if !errors.Is(err, errFault) {
					t.Fatal(err)
				}
				// A trimming that failed has been done or not.
				m.trimmed, m.epochs["a"] = s.kept.trimmed, s.Epochs("a")
			}
			if d := m.diff(s); d != "" {
				t.Fatal(d)
			}
		}
		*plan = faults{write: -1}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(dir, opts); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if d := m.diff(s); d != "" {
			t.Fatal(d)
		}
	})
}

// What a failed write has left is gone before the log goes on in another segment, where Open would
// take it for damage.
func TestFaultyWriteBeforeRoll(t *testing.T) {
	dir, plan := filepath.Join(t.TempDir(), "q"), &faults{write: -1}
	opts := Options{SegmentSize: 1 << 10, create: faulty(plan)}
	s := mustOpen(t, dir, opts)
	must(t, s.CommitSink("s", 1, nil))
	*plan = faults{write: 20, truncate: true}
	if err := s.CommitSink("s", 2, make([]byte, 100)); !errors.Is(err, errFault) {
		t.Fatal(err)
	}
	plan.write = -1
	if err := s.CommitSink("s", 2, nil); !errors.Is(err, errFault) {
		t.Errorf("commit behind what could not be removed: %v", err)
	}
	plan.truncate = false
	must(t, s.CommitSink("s", 2, make([]byte, 1<<10)))
	if s.log.number != 2 {
		t.Fatalf("segment %d", s.log.number)
	}
	must(t, s.Close())
	s = mustOpen(t, dir, opts)
	if epoch, witness := s.Sink("s"); epoch != 2 || len(witness) != 1<<10 {
		t.Errorf("commit %d, %d bytes", epoch, len(witness))
	}
}

// What a disk has failed to sync once is not taken for written later.
func TestSyncFails(t *testing.T) {
	plan := &faults{write: -1}
	s := mustOpen(t, filepath.Join(t.TempDir(), "q"), Options{Fsync: FsyncAlways, create: faulty(plan)})
	must(t, s.CommitSink("s", 1, nil))
	plan.sync = true
	if err := s.CommitSink("s", 2, nil); !errors.Is(err, errFault) {
		t.Errorf("commit: %v", err)
	}
	plan.sync = false
	if err := s.CommitSink("s", 3, nil); !errors.Is(err, errFault) {
		t.Errorf("commit after a failed sync: %v", err)
	}
	w, err := s.BeginCheckpoint(1)
	must(t, err)
	if err := w.Complete(nil); !errors.Is(err, errFault) {
		t.Errorf("checkpoint after a failed sync: %v", err)
	}
}
