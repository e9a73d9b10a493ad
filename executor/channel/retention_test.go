package channel

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"sluice/operators"
)

// filled is a sender that retains many epochs of 100 rows; each epoch's frame has about 1.7 kB.
func filled(t *testing.T, store *Retention, epochs int64) *Sender {
	t.Helper()
	s := NewSender(SenderConfig{Channel: "c", Generation: 1, Schema: two, Start: After(0), Store: store})
	for e := int64(1); e <= epochs; e++ {
		if err := errors.Join(s.Rows(e, e-1, e, rowsOf(two, e, 0, 100, false, 0)), s.Mark(operators.Mark{Epoch: e, Prev: e - 1, Clock: e, Watermark: e})); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestSpill: what memory has no room for is on disk, comes back from there, and its space is given back.
func TestSpill(t *testing.T) {
	dir := t.TempDir()
	store := NewRetention(100_000, dir)
	a, b := filled(t, store, 200), filled(t, store, 20)
	if m := store.Memory(); m > 100_000+store.batch {
		t.Errorf("%d bytes in memory", m)
	}
	if got, want := store.Memory()+store.Spilled(), a.Retained()+b.Retained(); got != want {
		t.Errorf("%d bytes in memory and on disk, %d are retained", got, want)
	}
	if store.Spilled() == 0 || store.Full() || store.Err() != nil {
		t.Errorf("%d bytes spilled, full %v, %v", store.Spilled(), store.Full(), store.Err())
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 0 {
		t.Errorf("files with names: %q", files)
	}
	for _, s := range []*Sender{a, b} {
		p := &pair{s: s, r: receiver(two, After(0), 0)}
		s.Connected()
		p.run()
		if want := After(s.marked); p.r.Position() != want {
			t.Errorf("the receiver is at %v, want %v: %v", p.r.Position(), want, s.Err())
		}
	}
	a.Trim(150)
	p := &pair{s: a, r: receiver(two, After(150), 0)}
	a.Connected()
	if p.run(); p.r.Position() != After(200) {
		t.Errorf("after a trim the receiver is at %v", p.r.Position())
	}
	b.Trim(1000)
	a.Close()
	if store.Memory() != 0 || store.Spilled() != 0 || a.Retained() != 0 || b.Retained() != 0 {
		t.Errorf("%d bytes in memory and %d on disk are left", store.Memory(), store.Spilled())
	}
}

// TestSegments: files are closed as they are trimmed.
func TestSegments(t *testing.T) {
	store := NewRetention(0, t.TempDir())
	s := shelf{store: store}
	h := header{kind: kindMark, epoch: 1}
	msg := append(h.message(), make([]byte, 4<<20)...)
	var files []*os.File
	for e := int64(1); e <= 12; e++ {
		s.add(After(e), msg)
		if f := s.frames[len(s.frames)-1].file.file.(*os.File); len(files) == 0 || files[len(files)-1] != f {
			files = append(files, f)
		}
	}
	if len(files) != 3 {
		t.Fatalf("%d files for 48 MiB", len(files))
	}
	for n, f := range files {
		if _, err := f.Stat(); err != nil {
			t.Errorf("file %d is closed before it is trimmed: %v", n, err)
		}
		s.drop(4)
		if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("file %d is not closed when it is trimmed: %v", n, err)
		}
	}
	s.add(After(13), msg)
	if s.disk != 1 || store.Spilled() != int64(len(msg)) {
		t.Errorf("%d frames on disk of one", s.disk)
	}
}

// TestDiskThatFails: what the disk does not take stays in memory, sources are braked, and all goes on when
// the disk is well again.
func TestDiskThatFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	store := NewRetention(10_000, dir)
	s := filled(t, store, 50)
	if !s.Pressure() || store.Err() == nil || store.Spilled() != 0 {
		t.Fatalf("pressure %v, error %v, %d bytes spilled", s.Pressure(), store.Err(), store.Spilled())
	}
	p := &pair{s: s, r: receiver(two, After(0), 0)}
	s.Connected()
	if p.run(); p.r.Position() != After(50) {
		t.Errorf("the receiver is at %v", p.r.Position())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for e := int64(51); store.Memory() > 10_000 && e < 200; e++ {
		if err := s.Mark(operators.Mark{Epoch: e, Prev: e - 1}); err != nil {
			t.Fatal(err)
		}
	}
	if s.Pressure() || store.Err() != nil || store.Spilled() == 0 {
		t.Errorf("pressure %v, error %v, %d bytes spilled", s.Pressure(), store.Err(), store.Spilled())
	}

	// No more rows come, since sources brake: the time alone lets it be tried again.
	full := NewRetention(10_000, filepath.Join(dir, "gone"))
	braked := filled(t, full, 50)
	if err := os.Mkdir(filepath.Join(dir, "gone"), 0o700); err != nil {
		t.Fatal(err)
	}
	if !braked.Pressure() {
		t.Error("no pressure from a disk that takes nothing")
	}
	if braked.Tick(1); braked.Pressure() || full.Spilled() == 0 {
		t.Errorf("pressure %v after the disk has taken %d bytes", braked.Pressure(), full.Spilled())
	}

	// A segment whose file takes nothing any more.
	s.shelf.last.file.Close()
	before := s.shelf.disk
	if err := s.shelf.spill(); err == nil || s.shelf.disk != before {
		t.Errorf("a write to a closed file: %v", err)
	}
}

// TestRowsLostOnDisk: damage on disk is an error of the sender, not rows that are wrong.
func TestRowsLostOnDisk(t *testing.T) {
	for name, damage := range map[string]func(f *os.File) error{
		"a changed header": func(f *os.File) error { _, err := f.WriteAt([]byte{1}, 30); return err },
		"a changed row":    func(f *os.File) error { _, err := f.WriteAt([]byte{1, 2, 3}, headSize+100); return err },
		"a cut file":       func(f *os.File) error { return f.Truncate(50) },
	} {
		s := filled(t, NewRetention(0, t.TempDir()), 3)
		if err := damage(s.shelf.frames[0].file.file.(*os.File)); err != nil {
			t.Fatal(err)
		}
		p := &pair{s: s, r: receiver(two, After(0), 0)}
		s.Connected()
		p.run()
		if !errors.Is(s.Err(), ErrSpill) || p.r.Position() != After(0) {
			t.Errorf("%s: %v, and the receiver is at %v", name, s.Err(), p.r.Position())
		}
	}
}

// TestSharedRetention: senders of several tasks use one budget at the same time.
func TestSharedRetention(t *testing.T) {
	store := NewRetention(50_000, t.TempDir())
	var tasks sync.WaitGroup
	for range 4 {
		tasks.Go(func() {
			s := NewSender(SenderConfig{Channel: "c", Schema: two, Start: After(0), Store: store})
			for e := int64(1); e <= 100; e++ {
				if err := errors.Join(s.Rows(e, e-1, e, rowsOf(two, e, 0, 100, false, 0)), s.Mark(operators.Mark{Epoch: e, Prev: e - 1})); err != nil {
					t.Error(err)
				}
				s.Trim(e - 30)
			}
			s.Close()
		})
	}
	tasks.Wait()
	if store.Memory() != 0 || store.Spilled() != 0 || store.Err() != nil {
		t.Errorf("%d bytes in memory, %d on disk, %v", store.Memory(), store.Spilled(), store.Err())
	}
}
