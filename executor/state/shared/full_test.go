package shared

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/executor/state"
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
	is(t, err, syscall.ENOSPC)
	return func() { must(t, os.Remove(path)) }
}

// On a full disk nothing happens, and all goes on as soon as there is room.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, 512)
	s, err := Open(filepath.Join(disk, "q"), Options{Coordinator: true, SegmentSize: 1 << 10})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	must(t, s.SetSpec([]byte("first")))
	must(t, s.Claim(1))
	log, _ := source(t, s, 1)
	sinkLog, _, _, err := s.OpenSink("snk", 1)
	must(t, err)
	defer func() { must(t, sinkLog.Close()) }()
	for i := int64(1); i < 20; i++ {
		must(t, errors.Join(log.AppendRows(i, rowsAt(i)), log.Append(epoch(i)), sinkLog.Commit(i, nil)))
	}
	free := fill(t, disk)
	i, big := int64(20), make([]byte, 8<<10)
	full := func() map[string]error {
		_, save := s.Save(big, 1)
		_, decide := s.Decide(1, true)
		_, snapshot := s.WriteSnapshot("k", 1, 1, 1, "", func(keep func(int, []byte) error) error { return keep(0, big) })
		other, _, open := s.OpenSource("src2", 1)
		otherSink, _, _, openSink := s.OpenSink("snk2", 1)
		if open == nil && openSink == nil {
			must(t, errors.Join(other.Close(), otherSink.Close()))
		}
		return map[string]error{
			"rows": log.AppendRows(i, big[:7000]), "commit": sinkLog.Commit(i, big), "save": save, "decide": decide,
			"snapshot": snapshot, "open": open, "open sink": openSink, "spec": s.SetSpec(big),
		}
	}
	for range 2 {
		for what, err := range full() {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	// Entries go on until the page that the log has is full.
	for err = nil; err == nil; i++ {
		err = log.Append(epoch(i))
	}
	i--
	is(t, err, syscall.ENOSPC)
	if text, err := s.Spec(); string(text) != "first" {
		t.Errorf("spec %q: %v", text, err)
	}
	must(t, log.Trim(3)) // it makes room, or waits for some
	free()
	for what, err := range full() {
		if err != nil {
			t.Errorf("%s, with room: %v", what, err)
		}
	}
	must(t, log.Append(epoch(i)))
	left, err := s.disk.names(tmpDir)
	must(t, err)
	_, list := source(t, s, 2)
	if len(left) > 0 || list[len(list)-1].Epoch != i || int64(len(list)) != i-2 {
		t.Errorf("temporary files %q, %d entries up to %d", left, len(list), list[len(list)-1].Epoch)
	}
}

// faults is what goes wrong with a log's file.
type faults struct {
	mu    sync.Mutex
	write func(n int) int // how many of n bytes are written; nil: all
	trunc bool
	sync  error
	syncs int
}

type faultyFile struct {
	logFile
	f *faults
}

func (f *faultyFile) WriteAt(b []byte, at int64) (int, error) {
	f.f.mu.Lock()
	defer f.f.mu.Unlock()
	if f.f.write == nil {
		return f.logFile.WriteAt(b, at)
	}
	n := f.f.write(len(b))
	if _, err := f.logFile.WriteAt(b[:n], at); err != nil {
		return 0, err
	}
	return n, syscall.ENOSPC
}

func (f *faultyFile) Truncate(size int64) error {
	f.f.mu.Lock()
	defer f.f.mu.Unlock()
	if f.f.trunc {
		return syscall.EIO
	}
	return f.logFile.Truncate(size)
}

func (f *faultyFile) Sync() error {
	f.f.mu.Lock()
	defer f.f.mu.Unlock()
	f.f.syncs++
	return f.f.sync
}

func (f *faults) set(change func(f *faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// Whatever part of a record was written, it does not count, and the next one is whole.
func TestFailedAppends(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := &faults{}
		s := openNew(t, Options{wrapFile: func(f logFile) logFile { return &faultyFile{f, plan} }})
		log, _ := source(t, s, 1)
		want := int64(0)
		for range 30 {
			fail := rapid.Bool().Draw(rt, "fail")
			plan.set(func(f *faults) {
				f.write = nil
				if fail {
					part := rapid.Float64Range(0, 1).Draw(rt, "part")
					f.write, f.trunc = func(n int) int { return min(int(part*float64(n)), n-1) }, rapid.Bool().Draw(rt, "truncate")
				}
			})
			err := log.Append(epoch(want + 1))
			if (err == nil) == fail {
				rt.Fatalf("append: %v", err)
			}
			if err == nil {
				want++
			}
			plan.set(func(f *faults) { f.write, f.trunc = nil, false })
			if rapid.IntRange(0, 4).Draw(rt, "reopen") == 0 {
				var list []state.Epoch
				if log, list = source(t, s, 1); int64(len(list)) != want {
					rt.Fatalf("%d entries, want %d", len(list), want)
				}
			}
		}
	})
}

// A log that the disk fails to sync is given up until it is opened again.
func TestFailedSync(t *testing.T) {
	for _, mode := range []state.FsyncMode{state.FsyncAlways, state.FsyncGrouped} {
		plan := &faults{}
		s := openNew(t, Options{Fsync: mode, Interval: time.Millisecond, wrapFile: func(f logFile) logFile { return &faultyFile{f, plan} }})
		log, _ := source(t, s, 1)
		must(t, log.Append(epoch(1)))
		plan.set(func(f *faults) { f.sync = syscall.EIO })
		var err error
		deadline := time.Now().Add(10 * time.Second)
		for i := int64(2); err == nil && time.Now().Before(deadline); i++ {
			err = log.Append(epoch(i))
			time.Sleep(time.Millisecond)
		}
		is(t, err, syscall.EIO)
		plan.set(func(f *faults) { f.sync = nil })
		is(t, log.Append(epoch(100)), syscall.EIO)
		is(t, log.Trim(1), syscall.EIO)
		again, list := source(t, s, 2)
		if len(list) == 0 {
			t.Error("no entries")
		}
		must(t, again.Append(epoch(200)))
	}
}

// That the disk has failed to sync in the background is told also if nothing is appended any more.
func TestFailedLastSync(t *testing.T) {
	plan := &faults{}
	s := openNew(t, Options{Fsync: state.FsyncGrouped, Interval: time.Millisecond, wrapFile: func(f logFile) logFile { return &faultyFile{f, plan} }})
	log, _ := source(t, s, 1)
	sinkLog, _, _, err := s.OpenSink("snk", 1)
	must(t, err)
	both := []state.Syncing{log, sinkLog.(state.Syncing)}
	for _, l := range both {
		must(t, l.Failed())
	}
	plan.set(func(f *faults) { f.sync = syscall.EIO })
	must(t, errors.Join(log.Append(epoch(1)), sinkLog.Commit(1, nil)))
	for i, l := range both {
		for end := time.Now().Add(10 * time.Second); l.Failed() == nil && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		is(t, l.Failed(), syscall.EIO)
		if up := l.Synced(); up >= 1 {
			t.Errorf("log %d: synced up to %d", i, up)
		}
	}
	plan.set(func(f *faults) { f.sync = nil })
	is(t, log.Close(), syscall.EIO)
	is(t, sinkLog.Close(), syscall.EIO)
	again, list := source(t, s, 2)
	if err := again.Failed(); err != nil || len(list) != 1 {
		t.Errorf("opened again: %v, %d entries", err, len(list))
	}
}

// Syncs of FsyncGrouped are shared by many appends, and there are none in FsyncNever.
func TestSyncs(t *testing.T) {
	for mode, want := range map[state.FsyncMode][2]int{
		state.FsyncNever: {0, 0}, state.FsyncAlways: {100, 101}, state.FsyncGrouped: {1, 2},
	} {
		plan := &faults{}
		s := openNew(t, Options{Fsync: mode, Interval: time.Hour, wrapFile: func(f logFile) logFile { return &faultyFile{f, plan} }})
		log, _ := source(t, s, 1)
		for i := range int64(100) {
			must(t, log.Append(epoch(i+1)))
		}
		must(t, log.Close())
		if plan.syncs < want[0] || plan.syncs > want[1] {
			t.Errorf("mode %d: %d syncs", mode, plan.syncs)
		}
	}
}

// Files of processes that write stay, those of processes that have ended go.
func TestSweep(t *testing.T) {
	s := openNew(t, Options{})
	must(t, os.WriteFile(s.disk.path(tmpDir, "tmp-dead"), nil, 0o644))
	must(t, os.Symlink("/nowhere", s.disk.path(tmpDir, "link")))
	ref, err := s.WriteSnapshot("k", 1, 1, 1, "", func(keep func(int, []byte) error) error {
		must(t, s.Trim(5, nil))
		return keep(0, bytes.Repeat([]byte("x"), 1<<20))
	})
	must(t, err)
	_, err = s.ReadSnapshot(ref, func(int, []byte) error { return nil })
	must(t, err)
	left, err := s.disk.names(tmpDir)
	must(t, err)
	if len(left) != 1 || left[0] != "link" {
		t.Errorf("temporary files %q", left)
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, mode := range map[string]state.FsyncMode{"never": state.FsyncNever, "grouped": state.FsyncGrouped, "always": state.FsyncAlways} {
		b.Run(name, func(b *testing.B) {
			s, err := Open(filepath.Join(b.TempDir(), "q"), Options{Coordinator: true, Fsync: mode})
			must(b, err)
			log, _ := source(b, s, 1)
			b.ReportAllocs()
			e := epoch(1)
			for i := int64(1); b.Loop(); i++ {
				e.Epoch, e.Prev = i, i-1
				must(b, log.Append(e))
				if i%1000 == 0 {
					must(b, log.Trim(i-100))
				}
			}
			must(b, log.Close())
			must(b, s.Close())
		})
	}
}

func BenchmarkMemoryAppend(b *testing.B) {
	p, err := NewMemory(nil).Open("p", false)
	must(b, err)
	log, _, err := p.OpenSource("src", 1)
	must(b, err)
	b.ReportAllocs()
	e := epoch(1)
	for i := int64(1); b.Loop(); i++ {
		e.Epoch, e.Prev = i, i-1
		must(b, log.Append(e))
		if i%1000 == 0 {
			must(b, log.Trim(i-100))
		}
	}
}
