package state

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model says naively what a Store must hold.
type model struct {
	epochs      map[string][]Epoch
	commits     map[string]modelCommit
	trimmed     int64
	checkpoints []modelCheckpoint
	spec        []byte
	left        map[int64]bool // checkpoints begun and never ended
}

type modelCommit struct {
	epoch   int64
	witness string
}

type modelCheckpoint struct {
	epoch  int64
	meta   string
	pieces map[string][]string // "group:bytes" by operator
}

func newModel() *model {
	return &model{epochs: map[string][]Epoch{}, commits: map[string]modelCommit{}, trimmed: -1, left: map[int64]bool{}}
}

func (m *model) clone() *model {
	c := newModel()
	for name, list := range m.epochs {
		c.epochs[name] = slices.Clone(list)
	}
	for name, commit := range m.commits {
		c.commits[name] = commit
	}
	c.trimmed, c.spec, c.checkpoints = m.trimmed, m.spec, slices.Clone(m.checkpoints)
	return c
}

func (m *model) last(source string) int64 {
	if list := m.epochs[source]; len(list) > 0 {
		return list[len(list)-1].Epoch
	}
	return -1
}

func (m *model) append(e Epoch) {
	if len(e.Position) == 0 {
		e.Position = nil
	}
	e.Position = slices.Clone(e.Position)
	m.epochs[e.Source] = append(m.epochs[e.Source], e)
}

func (m *model) trim(epoch int64) {
	m.checkpoints = slices.DeleteFunc(slices.Clone(m.checkpoints), func(c modelCheckpoint) bool { return c.epoch < epoch })
	if epoch <= m.trimmed {
		return
	}
	m.trimmed = epoch
	for name, list := range m.epochs {
		for len(list) > 1 && list[1].Epoch <= epoch {
			list = list[1:]
		}
		m.epochs[name] = list
	}
}

var (
	modelSources = []string{"a", "b", "source with a longer name"}
	modelSinks   = []string{"s", "t"}
)

// diff compares all that can be seen of the epochs and commits.
func (m *model) diff(s *Store) string {
	for _, name := range modelSources {
		want, got := append([]Epoch(nil), m.epochs[name]...), s.Epochs(name)
		if !reflect.DeepEqual(want, got) {
			return fmt.Sprintf("source %q: %s", name, cmp.Diff(want, got))
		}
	}
	for _, name := range modelSinks {
		epoch, witness := s.Sink(name)
		if want := m.commits[name]; epoch != want.epoch || string(witness) != want.witness {
			return fmt.Sprintf("sink %q: %d %q, want %+v", name, epoch, witness, want)
		}
	}
	return ""
}

func (m *model) diffAll(s *Store) string {
	if d := m.diff(s); d != "" {
		return d
	}
	if !bytes.Equal(s.Spec(), m.spec) {
		return fmt.Sprintf("spec %q, want %q", s.Spec(), m.spec)
	}
	c, err := s.Checkpoint()
	if err != nil {
		return err.Error()
	}
	if len(m.checkpoints) == 0 {
		if c != nil {
			return fmt.Sprintf("checkpoint %d, want none", c.Epoch())
		}
		return ""
	}
	if c == nil {
		return "no checkpoint"
	}
	got := modelCheckpoint{epoch: c.Epoch(), meta: string(c.Meta()), pieces: map[string][]string{}}
	for _, op := range c.Operators() {
		got.pieces[op] = nil
		err := c.Pieces(op, func(group int, piece []byte) error {
			got.pieces[op] = append(got.pieces[op], fmt.Sprintf("%d:%s", group, piece))
			return nil
		})
		if err != nil {
			return err.Error()
		}
		if c.Fingerprint(op) != "of "+op {
			return "fingerprint " + c.Fingerprint(op)
		}
	}
	return cmp.Diff(m.checkpoints[len(m.checkpoints)-1], got, cmp.AllowUnexported(modelCheckpoint{}))
}

func drawEpoch(t *rapid.T, source string, last int64) Epoch {
	e := Epoch{
		Source: source, Prev: last, Epoch: last + rapid.Int64Range(1, 3).Draw(t, "step"),
		Clock: rapid.Int64().Draw(t, "clock"), Watermark: rapid.Int64().Draw(t, "watermark"),
		Latest: rapid.Int64().Draw(t, "latest"), Rows: rapid.Int64Range(0, 1<<40).Draw(t, "rows"),
		Begun: rapid.Bool().Draw(t, "begun"), Idle: rapid.Bool().Draw(t, "idle"),
		End: rapid.Bool().Draw(t, "end"), Stop: rapid.Bool().Draw(t, "stop"),
	}
	e.Position = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "position")
	return e
}

func (m *model) checkpoint(t *rapid.T, s *Store) {
	low := int64(-1)
	if n := len(m.checkpoints); n > 0 {
		low = m.checkpoints[n-1].epoch
	}
	want := modelCheckpoint{epoch: low + rapid.Int64Range(1, 20).Draw(t, "step"), pieces: map[string][]string{}}
	w, err := s.BeginCheckpoint(want.epoch)
	if bug := (*AssertionError)(nil); m.left[want.epoch] && errors.As(err, &bug) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y", "../z"}), rapid.ID).Draw(t, "operators") {
		sw, err := w.Operator(op, "of "+op)
		if err != nil {
			t.Fatal(err)
		}
		want.pieces[op] = nil
		for range rapid.IntRange(0, 4).Draw(t, "pieces") {
			group := rapid.IntRange(-1, 719).Draw(t, "group")
			piece := bytes.Repeat([]byte("p"), rapid.SampledFrom([]int{0, 1, 9, 70_000}).Draw(t, "size"))
			if err := sw.Piece(group, piece); err != nil {
				t.Fatal(err)
			}
			want.pieces[op] = append(want.pieces[op], fmt.Sprintf("%d:%s", group, piece))
		}
		if err := sw.Close(); err != nil {
			t.Fatal(err)
		}
	}
	switch rapid.SampledFrom([]string{"complete", "abort", "leave"}).Draw(t, "end") {
	case "leave":
		m.left[want.epoch] = true
	case "abort":
		if err := w.Abort(); err != nil {
			t.Fatal(err)
		}
	case "complete":
		want.meta = rapid.StringN(0, 10, 20).Draw(t, "meta")
		if err := w.Complete([]byte(want.meta)); err != nil {
			t.Fatal(err)
		}
		m.checkpoints = append(m.checkpoints, want)
	}
}

// A Store is what the model is, after any operations and reopenings.
func TestModel(t *testing.T) {
	root := memoryDir(t)
	runs, compacted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := fmt.Sprintf("%s/%d", root, runs)
		opts := Options{SegmentSize: 1 << 10, Fsync: rapid.SampledFrom([]FsyncMode{FsyncNever, FsyncAlways, FsyncGrouped}).Draw(t, "fsync")}
		s, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		m := newModel()
		t.Repeat(map[string]func(*rapid.T){
			"epochs": func(t *rapid.T) {
				source := rapid.SampledFrom(modelSources).Draw(t, "source")
				for range rapid.SampledFrom([]int{1, 2, 40}).Draw(t, "n") {
					e := drawEpoch(t, source, m.last(source))
					if err := s.AppendEpoch(e); err != nil {
						t.Fatal(err)
					}
					m.append(e)
					clear(e.Position) // it was not to be kept
				}
			},
			"commit": func(t *rapid.T) {
				sink := rapid.SampledFrom(modelSinks).Draw(t, "sink")
				c := modelCommit{m.commits[sink].epoch + rapid.Int64Range(1, 3).Draw(t, "step"), rapid.StringN(0, 10, 20).Draw(t, "witness")}
				if err := s.CommitSink(sink, c.epoch, []byte(c.witness)); err != nil {
					t.Fatal(err)
				}
				m.commits[sink] = c
			},
			"order": func(t *rapid.T) {
				source, sink := rapid.SampledFrom(modelSources).Draw(t, "source"), rapid.SampledFrom(modelSinks).Draw(t, "sink")
				var bug *AssertionError
				if last := m.last(source); last >= 0 {
					if err := s.AppendEpoch(Epoch{Source: source, Epoch: last, Prev: last - 1}); !errors.As(err, &bug) {
						t.Fatalf("epoch %d twice: %v", last, err)
					}
				}
				if c, ok := m.commits[sink]; ok {
					if err := s.CommitSink(sink, c.epoch-1, nil); !errors.As(err, &bug) {
						t.Fatalf("commit of an epoch before the last: %v", err)
					}
					if err := s.CommitSink(sink, c.epoch, []byte(c.witness)); err != nil {
						t.Fatal(err)
					}
				}
			},
			"checkpoint": func(t *rapid.T) { m.checkpoint(t, s) },
			"trim": func(t *rapid.T) {
				high := int64(100)
				if n := len(m.checkpoints); n > 0 {
					high = m.checkpoints[n-1].epoch
				}
				epoch := rapid.SampledFrom([]int64{0, high / 2, high}).Draw(t, "epoch")
				before := s.log.first
				if err := s.Trim(epoch); err != nil {
					t.Fatal(err)
				}
				m.trim(epoch)
				if s.log.first > before {
					compacted++
				}
			},
			"spec": func(t *rapid.T) {
				m.spec = []byte(rapid.String().Draw(t, "spec"))
				if err := s.SetSpec(m.spec); err != nil {
					t.Fatal(err)
				}
			},
			"reopen": func(t *rapid.T) {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				m.left = map[int64]bool{}
				if s, err = Open(dir, opts); err != nil {
					t.Fatal(err)
				}
				if s.Cut().Bytes > 0 {
					t.Fatalf("cut %+v", s.Cut())
				}
			},
			"": func(t *rapid.T) {
				if d := m.diffAll(s); d != "" {
					t.Fatal(d)
				}
			},
		})
	})
	t.Logf("%d runs, %d times the log was compacted", runs, compacted)
}
