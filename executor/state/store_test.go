package state

import "testing"

func mustOpen(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// appendMany is what a source of bounded files does: epochs in a row, trimmed now and then.
func appendMany(b *testing.B, s *Store) {
	position := []byte("12345678901234567890")
	e := Epoch{Source: "source", Clock: 1.7e15, Watermark: 1.7e15, Latest: 1.7e15, Begun: true, Rows: 8192, Position: position}
	for b.Loop() {
		e.Prev, e.Epoch = e.Epoch, e.Epoch+1
		if err := s.AppendEpoch(e); err != nil {
			b.Fatal(err)
		}
		if e.Epoch%1000 == 0 {
			if err := s.Trim(e.Epoch); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
}

func BenchmarkAppendEpoch(b *testing.B) {
	for name, mode := range map[string]FsyncMode{"never": FsyncNever, "grouped": FsyncGrouped, "always": FsyncAlways} {
		b.Run("fsync="+name, func(b *testing.B) { appendMany(b, mustOpen(b, b.TempDir()+"/q", Options{Fsync: mode})) })
	}
}

func BenchmarkCommitSink(b *testing.B) {
	s, epoch, witness := mustOpen(b, b.TempDir()+"/q", Options{}), int64(0), []byte("12345678901234567890")
	b.ReportAllocs()
	for b.Loop() {
		epoch++
		if err := s.CommitSink("sink", epoch, witness); err != nil {
			b.Fatal(err)
		}
	}
}

// Appends take no memory of their own, beyond the blocks that entries are kept in.
func TestAppendAllocations(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/q", Options{})
	e := Epoch{Source: "source", Position: []byte("12345678901234567890")}
	if n := testing.AllocsPerRun(1000, func() {
		e.Prev, e.Epoch = e.Epoch, e.Epoch+1
		if err := s.AppendEpoch(e); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations an append", n)
	}
	epoch := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		epoch++
		if err := s.CommitSink("sink", epoch, e.Position); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a commit", n)
	}
}
