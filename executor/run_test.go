package executor

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

var timeSchema = &dataflow.Schema{Columns: []dataflow.Column{{Name: "t", Type: dataflow.TimestampType, EventTime: true}}}

// reuse is a source that gives out its rows in one batch of its own, over and over, as a decoder does.
type reuse struct {
	times   []int64
	cut     func() int
	epochs  operators.EpochOptions
	fail    error // instead of the end
	waits   bool  // for more, instead of the end
	lends   bool  // it gives its batches away
	lent    int   // batches that have not come back; guarded by
	mu      sync.Mutex
	out     batch.Batch
	rows    operators.SourceRows
	stopped bool
}

func (s *reuse) Next(ctx context.Context, most int) (*operators.SourceRows, error) {
	if s.stopped {
		return nil, operators.ErrStopped
	}
	if len(s.times) == 0 {
		if s.fail != nil {
			return nil, s.fail
		}
		if s.waits {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, io.EOF
	}
	if s.out.RowWatermarks != nil {
		return nil, errors.New("somebody has changed the source's batch")
	}
	n := min(most, len(s.times), s.cut())
	if s.out.Schema == nil {
		s.out = *batch.New(timeSchema)
	}
	s.out.Len = n
	s.out.Cols[0].Reset(dataflow.TimestampType, n)
	copy(s.out.Cols[0].Ints, s.times[:n])
	s.times = s.times[n:]
	s.rows = operators.SourceRows{Batch: &s.out, Read: n}
	if s.lends {
		b := s.out
		s.out = batch.Batch{}
		s.rows.Batch, s.rows.Release = &b, s.release
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lent++
	}
	return &s.rows, nil
}

// release takes a batch back and overwrites it.
func (s *reuse) release(b *batch.Batch) {
	for i := range b.Cols[0].Ints {
		b.Cols[0].Ints[i] = -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lent--
}

func (s *reuse) Epochs() operators.EpochOptions { return s.epochs }
func (s *reuse) Stop()                          {}
func (s *reuse) Close() error                   { return nil }

// collect is a sink that keeps its rows and what watermark each carries.
type collect struct {
	mu     sync.Mutex
	times  []int64
	marks  []int64
	enough int // rows after which it is done; 0: never
	// atEpochEnd: it is done at the end of the first epoch with rows
	atEpochEnd bool
	committed  bool
	closed     int
}

func (c *collect) Process(_ int, b *batch.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b.Len {
		c.times = append(c.times, b.Cols[0].Ints[i])
		c.marks = append(c.marks, b.RowWatermark(i))
	}
	if c.enough > 0 && len(c.times) >= c.enough {
		return operators.ErrDone
	}
	return nil
}

func (c *collect) EndEpoch(operators.Mark) error {
	if c.atEpochEnd && len(c.times) > 0 {
		return operators.ErrDone
	}
	return nil
}

func (c *collect) Close(commit bool) error {
	c.committed = commit
	c.closed++
	return nil
}

var testSink = &dataflow.Descriptor{Name: "sink", MinInputs: 1, MaxInputs: 1}

// chain is source -> node -> sink.
func chain() (*dataflow.Graph, []*dataflow.Operator) {
	src := &dataflow.Operator{Name: "src", Desc: testSource, Outputs: []dataflow.Output{{Stream: "a", Schema: timeSchema}}}
	mid := &dataflow.Operator{Name: "mid", Desc: testNode, Outputs: []dataflow.Output{{Stream: "b", Schema: timeSchema}},
		Inputs: []dataflow.Input{{Stream: "a", From: src, Schema: timeSchema}}}
	sink := &dataflow.Operator{Name: "sink", Desc: testSink, Inputs: []dataflow.Input{{Stream: "b", From: mid, Schema: timeSchema}}}
	ops := []*dataflow.Operator{src, mid, sink}
	return &dataflow.Graph{Operators: ops}, ops
}

func runChain(src *reuse, sink *collect, tasks [][]*dataflow.Operator, g *dataflow.Graph) (*Query, error) {
	return Run(context.Background(), g, Options{
		Tasks: tasks,
		Build: func(c *operators.Context) (operators.Operator, error) {
			if c.Op.Name == "sink" {
				return sink, nil
			}
			return &record{ctx: c}, nil
		},
		OpenSource: func(*operators.Context) (operators.Source, error) { return src, nil },
	})
}

// TestRunCutsEpochs: whatever the batches, the epochs and the division into tasks, the sink gets each
// row once and in order, with the watermark that its source had before it.
func TestRunCutsEpochs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, 40), 0, 60).Draw(t, "times")
		src := &reuse{times: times, cut: func() int { return rapid.IntRange(1, 12).Draw(t, "cut") }}
		src.epochs.Rows = rapid.IntRange(1, 20).Draw(t, "epoch-rows")
		g, ops := chain()
		tasks := rapid.SampledFrom([][][]*dataflow.Operator{
			nil, {ops[:1], ops[1:]}, {ops[:2], ops[2:]}, {ops[:1], ops[1:2], ops[2:]}, {{ops[0], ops[2]}, ops[1:2]},
		}).Draw(t, "tasks")
		sink := &collect{}
		q, err := runChain(src, sink, tasks, g)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sink.times, times) {
			t.Fatalf("sink got %v, want %v", sink.times, times)
		}
		for i := range times {
			want := batch.MinWatermark
			if i > 0 {
				want = slices.Max(times[:i])
			}
			if got := sink.marks[i]; got != want && (got > want || times[i] < want) {
				t.Fatalf("row %d of %v carries %d, want %d", i, times, got, want)
			}
		}
		if !sink.committed || sink.closed != 1 {
			t.Fatalf("sink was closed %d times, committed %v", sink.closed, sink.committed)
		}
		if s := q.Stats(); s.Watermark != batch.MaxWatermark || s.Operators[0].In != int64(len(times)) {
			t.Fatalf("stats %+v", s)
		}
	})
}

func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	g, ops := chain()
	for _, tasks := range [][][]*dataflow.Operator{nil, {ops[:1], ops[1:2], ops[2:]}} {
		src := &reuse{times: []int64{1, 2, 3}, cut: func() int { return 1 }, fail: broken}
		src.epochs.Rows = 2
		sink := &collect{}
		_, err := runChain(src, sink, tasks, g)
		var op *OperatorError
		if !errors.As(err, &op) || op.Op.Name != "src" || !errors.Is(err, broken) {
			t.Errorf("error %v, want that of the source", err)
		}
		if sink.committed || sink.closed != 1 {
			t.Errorf("sink was closed %d times, committed %v", sink.closed, sink.committed)
		}
	}
}

// TestRunEndsWhenSinksAreDone: a source without end stops when nobody wants more.
func TestRunEndsWhenSinksAreDone(t *testing.T) {
	g, ops := chain()
	for _, tasks := range [][][]*dataflow.Operator{nil, {ops[:1], ops[1:2], ops[2:]}} {
		src := &reuse{cut: func() int { return 1 }}
		src.times = make([]int64, 1<<20)
		src.epochs.Rows = 4
		sink := &collect{enough: 10}
		if _, err := runChain(src, sink, tasks, g); err != nil {
			t.Fatal(err)
		}
		if len(sink.times) != 10 || len(src.times) == 0 {
			t.Errorf("sink got %d rows, %d were not read", len(sink.times), len(src.times))
		}
	}
}

// TestRunEndsWithoutFurtherRows: a source that only waits stops when nobody wants more.
func TestRunEndsWithoutFurtherRows(t *testing.T) {
	g, _ := chain()
	src := &reuse{cut: func() int { return 1 }, waits: true}
	src.times = make([]int64, 3)
	src.epochs = operators.EpochOptions{Rows: 10, Interval: time.Millisecond}
	sink := &collect{atEpochEnd: true}
	if _, err := runChain(src, sink, nil, g); err != nil {
		t.Fatal(err)
	}
	if len(sink.times) == 0 {
		t.Error("the sink got no row")
	}
}

// TestRunDiamond: copies of a stream over paths of different tasks are merged epoch by epoch, in order
// of the inputs; a source runs ahead of the sink by a bounded number of epochs only.
func TestRunDiamond(t *testing.T) {
	node := func(name string, from ...*dataflow.Operator) *dataflow.Operator {
		op := &dataflow.Operator{Name: name, Desc: testNode, Outputs: []dataflow.Output{{Stream: name, Schema: timeSchema}}}
		for _, f := range from {
			op.Inputs = append(op.Inputs, dataflow.Input{Stream: f.Name, From: f, Schema: timeSchema})
		}
		return op
	}
	src := node("src")
	src.Desc = testSource
	left, right := node("left", src), node("right", src)
	join := node("join", right, left, src)
	sink := node("sink", join)
	sink.Desc, sink.Outputs = testSink, nil
	ops := []*dataflow.Operator{src, left, right, join, sink}
	times := make([]int64, 3000)
	for i := range times {
		times[i] = int64(i)
	}
	var want []int64
	for from := 0; from < len(times); from += 50 {
		for range 3 {
			want = append(want, times[from:from+50]...)
		}
	}
	for _, tasks := range [][][]*dataflow.Operator{nil, {{src}, {left}, {right}, {join, sink}}, {{src, left}, {right}, {join}, {sink}}} {
		for _, lends := range []bool{false, true} {
			in := &reuse{times: times, cut: func() int { return 7 }, lends: lends}
			in.epochs.Rows = 50
			out := &collect{}
			if _, err := runChain(in, out, tasks, &dataflow.Graph{Operators: ops}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out.times, want) {
				t.Errorf("tasks %d, lends %v: %d rows in another order or number than %d", len(tasks), lends, len(out.times), len(want))
			}
			if in.lent != 0 {
				t.Errorf("tasks %d: %d batches have not come back", len(tasks), in.lent)
			}
		}
	}
}
