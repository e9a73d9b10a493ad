package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// history is what a directory was after each of some operations.
type history struct {
	dir   string
	steps []step
}

type step struct {
	segment uint64 // where the log ended
	size    int64
	want    *model
}

// record does n operations, and trims to the epoch in the middle if trim is set.
func record(t *testing.T, n int, trim bool) history {
	h := history{dir: filepath.Join(memoryDir(t), "q")}
	s := mustOpen(t, h.dir, Options{SegmentSize: 1 << 10})
	m := newModel()
	note := func() { h.steps = append(h.steps, step{s.log.number, s.log.size, m.clone()}) }
	note()
	for i := range n {
		id := int64(i + 1)
		if i%5 == 4 {
			sink, c := modelSinks[i%len(modelSinks)], modelCommit{id, fmt.Sprintf("file-%d", i)}
			m.commits[sink] = c
			must(t, s.CommitSink(sink, c.epoch, []byte(c.witness)))
		} else {
			source := modelSources[i%len(modelSources)]
			e := Epoch{Source: source, Epoch: id, Prev: m.last(source), Clock: 1e15 + id, Rows: id, Position: fmt.Appendf(nil, "offset %d", i*1000)}
			m.append(e)
			must(t, s.AppendEpoch(e))
		}
		note()
		if trim && i == n*3/4 {
			m.trim(id - 3)
			must(t, s.Trim(id-3))
			note()
		}
	}
	must(t, s.Close())
	return h
}

// memoryDir is a temporary directory in memory where there is such a thing: these tests open thousands
// of state directories.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "sluice-state-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// upTo is the model after the last step that lies before a place in the log.
func (h history) upTo(segment uint64, size int64) *model {
	want := newModel()
	for _, st := range h.steps {
		if st.segment < segment || st.segment == segment && st.size <= size {
			want = st.want
		}
	}
	return want
}

func (h history) segments(t *testing.T) map[uint64][]byte {
	numbers, err := segmentNumbers(filepath.Join(h.dir, logDir))
	must(t, err)
	content := map[uint64][]byte{}
	for _, n := range numbers {
		content[n], err = os.ReadFile(filepath.Join(h.dir, logDir, segmentName(n)))
		must(t, err)
	}
	return content
}

// lay makes dir a state directory with these segments.
func lay(t *testing.T, dir string, content map[uint64][]byte) {
	must(t, os.RemoveAll(dir))
	must(t, os.MkdirAll(filepath.Join(dir, logDir), 0o755))
	for n, b := range content {
		must(t, os.WriteFile(filepath.Join(dir, logDir, segmentName(n)), b, 0o644))
	}
}

// However much of the log a crash has left, what was whole is there and nothing else, and the log
// can be written.
func TestCutAnywhere(t *testing.T) {
	h := record(t, 60, false)
	content := h.segments(t)
	if len(content) < 3 {
		t.Fatalf("%d segments", len(content))
	}
	dir := filepath.Join(memoryDir(t), "q")
	left := map[uint64][]byte{}
	for n := uint64(1); n <= uint64(len(content)); n++ {
		for size := 0; size <= len(content[n]); size++ {
			left[n] = content[n][:size]
			lay(t, dir, left)
			checkAfterCut(t, dir, h.upTo(n, int64(size)))
		}
	}
}

func checkAfterCut(t *testing.T, dir string, want *model) {
	t.Helper()
	s, err := Open(dir, Options{SegmentSize: 1 << 10})
	must(t, err)
	if d := want.diff(s); d != "" {
		t.Fatal(d)
	}
	want = want.clone()
	e := Epoch{Source: "a", Epoch: 1000, Prev: 999, Position: []byte("x")}
	want.append(e)
	must(t, s.AppendEpoch(e))
	must(t, s.Close())
	s, err = Open(dir, Options{})
	must(t, err)
	defer s.Close()
	if d := want.diff(s); d != "" || s.Cut().Bytes != 0 {
		t.Fatalf("after another append: cut %+v %s", s.Cut(), d)
	}
}

// A base appears by a rename, so no crash cuts it off: where it is short, something else has happened.
func TestCutCompacted(t *testing.T) {
	h := record(t, 60, true)
	content := h.segments(t)
	if len(content) != 1 {
		t.Fatalf("%d segments", len(content))
	}
	dir := filepath.Join(memoryDir(t), "q")
	for n, b := range content {
		hd, err := decodeSegmentHeader(b)
		must(t, err)
		if hd.base == 0 || segmentHead+int(hd.base) >= len(b) {
			t.Fatalf("base of %d bytes in a segment of %d", hd.base, len(b))
		}
		for size := range b {
			lay(t, dir, map[uint64][]byte{n: b[:size]})
			if size >= segmentHead+int(hd.base) {
				checkAfterCut(t, dir, h.upTo(n, int64(size)))
				continue
			}
			if _, err := Open(dir, Options{}); !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut to %d bytes: %v", size, err)
			}
		}
	}
}

// A bit that has changed is found out. Only in the last record it looks like what a crash leaves.
func TestFlipAnywhere(t *testing.T) {
	for _, trim := range []bool{false, true} {
		t.Run(fmt.Sprint("trim=", trim), func(t *testing.T) { flipAll(t, record(t, 40, trim)) })
	}
}

func flipAll(t *testing.T, h history) {
	content := h.segments(t)
	last, beforeLast := h.steps[len(h.steps)-1], h.steps[len(h.steps)-2]
	dir := filepath.Join(memoryDir(t), "q")
	for n, b := range content {
		for at := range b {
			bad := append([]byte(nil), b...)
			bad[at] ^= 1 << (at % 8)
			content[n] = bad
			lay(t, dir, content)
			s, err := Open(dir, Options{})
			switch inLast := n == last.segment && int64(at) >= beforeLast.size; {
			case err == nil && !inLast:
				t.Errorf("segment %d: a changed bit at offset %d went unnoticed", n, at)
			case err == nil:
				if d := beforeLast.want.diff(s); d != "" {
					t.Errorf("offset %d: %s", at, d)
				}
				if s.Cut().Offset != beforeLast.size {
					t.Errorf("offset %d: cut %+v", at, s.Cut())
				}
			case !errors.Is(err, ErrDamaged):
				t.Errorf("offset %d: %v", at, err)
			}
			if s != nil {
				must(t, s.Close())
			}
		}
		content[n] = b
	}
}

// A base of which the last record is damaged has no valid one behind, and is yet no torn tail.
func TestFlipBase(t *testing.T) {
	h := history{dir: filepath.Join(memoryDir(t), "q")}
	s := mustOpen(t, h.dir, Options{SegmentSize: 1 << 10})
	for i := range int64(40) {
		must(t, s.AppendEpoch(Epoch{Source: "a", Epoch: i, Prev: i - 1, Position: []byte("position")}))
	}
	must(t, s.Trim(39))
	number := s.log.number
	must(t, s.Close())
	content := h.segments(t)
	if len(content) != 1 {
		t.Fatalf("%d segments", len(content))
	}
	dir, good := filepath.Join(memoryDir(t), "q"), content[number]
	for at := range good {
		bad := append([]byte(nil), good...)
		bad[at] ^= 1 << (at % 8)
		lay(t, dir, map[uint64][]byte{number: bad})
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("offset %d: %v", at, err)
		}
	}
}

// halfway is a file that calls then in the middle of each write.
type halfway struct {
	segmentFile
	then func()
}

func (f halfway) WriteAt(b []byte, at int64) (int, error) {
	if _, err := f.segmentFile.WriteAt(b[:len(b)/2], at); err != nil {
		return 0, err
	}
	f.then()
	return f.segmentFile.WriteAt(b, at)
}

// A crash in the middle of any write, of a record, of a header or of a base, leaves what was before it.
func TestCrashInWrites(t *testing.T) {
	root := memoryDir(t)
	dir, m, compacted := filepath.Join(root, "q"), newModel(), 0
	var wants [][2]*model // before and after the operation that each crash was in
	next := newModel()
	crash := func() {
		copied := filepath.Join(root, fmt.Sprint("crash", len(wants)))
		must(t, os.CopyFS(copied, os.DirFS(dir)))
		wants = append(wants, [2]*model{m.clone(), next.clone()})
	}
	s := mustOpen(t, dir, Options{SegmentSize: 1 << 10, create: func(path string) (segmentFile, error) {
		f, err := createSegment(path)
		return halfway{f, crash}, err
	}})
	for i := range int64(150) {
		e := Epoch{Source: "a", Epoch: i, Prev: i - 1, Position: []byte("position")}
		next.append(e)
		must(t, s.AppendEpoch(e))
		m = next.clone()
		if i%25 == 20 {
			next.trim(i - 2)
			before := s.log.first
			must(t, s.Trim(i-2))
			m = next.clone()
			if s.log.first > before {
				compacted++
			}
		}
	}
	if compacted < 2 {
		t.Errorf("compacted %d times", compacted)
	}
	for i, want := range wants {
		c, err := Open(filepath.Join(root, fmt.Sprint("crash", i)), Options{})
		must(t, err)
		if before, after := want[0].diff(c), want[1].diff(c); before != "" && after != "" {
			t.Errorf("crash %d: %s", i, before)
		}
		must(t, c.Close())
	}
}

// Segments that are gone are noticed.
func TestMissingSegment(t *testing.T) {
	h := record(t, 80, false)
	content := h.segments(t)
	dir := filepath.Join(memoryDir(t), "q")
	for n := uint64(1); n < uint64(len(content)); n++ {
		left := map[uint64][]byte{}
		for k, b := range content {
			if k != n {
				left[k] = b
			}
		}
		lay(t, dir, left)
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("without segment %d: %v", n, err)
		}
	}
	// A whole record less at the end of a segment that is not the last leaves a gap.
	first := h.steps[0]
	for _, st := range h.steps {
		if st.segment == 1 && st.size < int64(len(content[1])) {
			first = st
		}
	}
	content[1] = content[1][:first.size]
	lay(t, dir, content)
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("without the last record of segment 1: %v", err)
	}
}

// Zeros behind the log, as some file systems leave them, are cut off.
func TestZerosBehind(t *testing.T) {
	h := record(t, 10, false)
	content := h.segments(t)
	want := h.steps[len(h.steps)-1].want
	content[1] = append(content[1], make([]byte, 5000)...)
	dir := filepath.Join(memoryDir(t), "q")
	lay(t, dir, content)
	checkAfterCut(t, dir, want)
}
