package executor

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

var idSchema = &dataflow.Schema{Columns: []dataflow.Column{{Name: "id", Type: dataflow.IntType}}}

func ids(values ...int64) *batch.Batch {
	b := batch.New(idSchema)
	b.Len = len(values)
	b.Cols[0] = batch.Vector{Type: dataflow.IntType, Len: len(values), Ints: values}
	return b
}

// record is a test operator: it passes on what it gets and writes down what it saw.
type record struct {
	ctx   *operators.Context
	rows  [][]int64 // by epoch
	marks []operators.Mark
}

func (r *record) Process(_ int, b *batch.Batch) error {
	if len(r.rows) == len(r.marks) {
		r.rows = append(r.rows, nil)
	}
	last := &r.rows[len(r.rows)-1]
	if b.Sel == nil {
		*last = append(*last, b.Cols[0].Ints[:b.Len]...)
	}
	for _, i := range b.Sel {
		*last = append(*last, b.Cols[0].Ints[i])
	}
	for _, o := range r.ctx.Outputs {
		if err := o.Emit(b); err != nil {
			return err
		}
	}
	return nil
}

func (r *record) EndEpoch(m operators.Mark) error {
	if len(r.rows) == len(r.marks) {
		r.rows = append(r.rows, nil)
	}
	r.marks = append(r.marks, m)
	return nil
}

var (
	testSource = &dataflow.Descriptor{Name: "source", Output: true}
	testNode   = &dataflow.Descriptor{Name: "node", MinInputs: 1, MaxInputs: -1, Output: true}
)

// randomGraph draws a graph of up to 3 sources and 6 operators, each with up to 3 inputs.
func randomGraph(t *rapid.T) *dataflow.Graph {
	g := &dataflow.Graph{}
	nSources := rapid.IntRange(1, 3).Draw(t, "sources")
	n := nSources + rapid.IntRange(1, 6).Draw(t, "nodes")
	for i := range n {
		op := &dataflow.Operator{Name: fmt.Sprint("op", i), Desc: testSource}
		if i >= nSources {
			op.Desc = testNode
			for j := range rapid.IntRange(1, 3).Draw(t, "inputs") {
				from := g.Operators[rapid.IntRange(0, i-1).Draw(t, "from")]
				op.Inputs = append(op.Inputs, dataflow.Input{Stream: from.Name, From: from, Schema: idSchema})
				from.Outputs[0].Consumers = append(from.Outputs[0].Consumers, dataflow.Consumer{Op: op, Input: j})
			}
		}
		op.Outputs = []dataflow.Output{{Stream: op.Name, Schema: idSchema}}
		g.Operators = append(g.Operators, op)
	}
	return g
}

// sourceEpoch is what a source brings in one epoch.
type sourceEpoch struct {
	rows      []int64
	watermark int64
	idle, end bool
}

// model says what each operator must see, computed top down without any order of arrival.
type model struct{ epochs map[string][]sourceEpoch }

func (m model) rows(op *dataflow.Operator, epoch int) []int64 {
	if len(op.Inputs) == 0 {
		if epoch < len(m.epochs[op.Name]) {
			return m.epochs[op.Name][epoch].rows
		}
		return nil
	}
	var all []int64
	for _, in := range op.Inputs {
		all = append(all, m.rows(in.From, epoch)...)
	}
	return all
}

// state is watermark, idle and end of an operator after an epoch.
func (m model) state(op *dataflow.Operator, epoch int) (watermark int64, idle, end bool) {
	if epoch < 0 {
		return batch.MinWatermark, false, false
	}
	if len(op.Inputs) == 0 {
		es := m.epochs[op.Name]
		e := es[min(epoch, len(es)-1)]
		return e.watermark, e.idle, e.end
	}
	before, _, _ := m.state(op, epoch-1)
	least, busy, live := batch.MaxWatermark, 0, 0
	for _, in := range op.Inputs {
		w, i, e := m.state(in.From, epoch)
		if !e {
			live++
			if !i {
				busy++
				least = min(least, w)
			}
		}
	}
	switch {
	case live == 0:
		return batch.MaxWatermark, false, true
	case busy == 0:
		return before, true, false
	}
	return max(before, least), false, false
}

func drawEpochs(t *rapid.T, g *dataflow.Graph) (model, int) {
	m := model{map[string][]sourceEpoch{}}
	next, longest := int64(0), 0
	for _, op := range g.Operators {
		if len(op.Inputs) > 0 {
			continue
		}
		var es []sourceEpoch
		mark := batch.MinWatermark
		n := rapid.IntRange(1, 4).Draw(t, "epochs")
		for i := range n {
			e := sourceEpoch{idle: rapid.Bool().Draw(t, "idle"), end: i == n-1}
			for range rapid.IntRange(0, 4).Draw(t, "rows") {
				e.rows = append(e.rows, next)
				next++
			}
			mark = max(mark, rapid.Int64Range(0, 100).Draw(t, "watermark"))
			e.watermark = mark
			if e.end {
				e.watermark, e.idle = batch.MaxWatermark, false
			}
			es = append(es, e)
		}
		m.epochs[op.Name] = es
		longest = max(longest, n)
	}
	return m, longest
}

// TestTaskOrder drives random tasks with sources that run ahead of one another as chance will have it:
// each operator sees each epoch's rows input by input, and the least watermark.
func TestTaskOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t)
		m, epochs := drawEpochs(t, g)
		seen := run(t, g, m, nil)
		for _, op := range g.Operators {
			if len(op.Inputs) > 0 {
				compare(t, op, seen[op.Name], m, epochs)
			}
		}
	})
}

// TestSkippedEpochs leaves out epochs in which a source has nothing new to say. Each operator sees the
// same rows in the same epochs, with the same watermarks.
func TestSkippedEpochs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t)
		m, _ := drawEpochs(t, g)
		skipped := map[string]map[int]bool{}
		for _, op := range g.Operators {
			if len(op.Inputs) > 0 {
				continue
			}
			skipped[op.Name] = map[int]bool{}
			es := m.epochs[op.Name]
			for i := range es {
				same := i > 0 && es[i].watermark == es[i-1].watermark && es[i].idle == es[i-1].idle
				if same && !es[i].end && len(es[i].rows) == 0 {
					skipped[op.Name][i] = rapid.Bool().Draw(t, "skip")
				}
			}
		}
		all, some := run(t, g, m, nil), run(t, g, m, skipped)
		for name, r := range all {
			if got, want := some[name].byEpoch(), r.byEpoch(); !maps.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%s: rows %v, without the skipped epochs %v", name, want, got)
			}
			for _, got := range some[name].marks {
				i := slices.IndexFunc(r.marks, func(m operators.Mark) bool { return m.Epoch == got.Epoch })
				if want := r.marks[i]; got.Watermark != want.Watermark || got.Idle != want.Idle || got.End != want.End {
					t.Fatalf("%s: mark %+v, without the skipped epochs %+v", name, want, got)
				}
			}
		}
	})
}

// run drives a task of records, without some epochs of its sources.
func run(t *rapid.T, g *dataflow.Graph, m model, skipped map[string]map[int]bool) map[string]*record {
	seen := map[string]*record{}
	task, err := NewTask(g.Operators, nil, "", func(c *operators.Context) (operators.Operator, error) {
		seen[c.Op.Name] = &record{ctx: c}
		return seen[c.Op.Name], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	drive(t, task, m, skipped)
	return seen
}

// byEpoch are the rows that came, by the epoch's number.
func (r *record) byEpoch() map[int64][]int64 {
	rows := map[int64][]int64{}
	for i, m := range r.marks {
		if len(r.rows[i]) > 0 {
			rows[m.Epoch] = r.rows[i]
		}
	}
	return rows
}

// lender is an owner of rows that overwrites them when they come back.
type lender struct {
	rows *batch.Batch
	back int // how often they have come back
}

func (l *lender) put(*batch.Batch) {
	l.back++
	for i := range l.rows.Cols[0].Ints {
		l.rows.Cols[0].Ints[i] = -1
	}
}

// drive feeds the task, choosing at every step which source goes on and by how many rows, and whether they are lent.
func drive(t *rapid.T, task *Task, m model, skipped map[string]map[int]bool) {
	var lenders []*lender
	defer func() {
		for i, l := range lenders {
			if l.back != 1 {
				t.Errorf("batch %d has been given back %d times", i, l.back)
			}
		}
	}()
	type cursor struct{ epoch, row int }
	at := make([]cursor, len(task.Sources()))
	for {
		var open []int
		for i, c := range task.Sources() {
			for skipped[c.Op.Name][at[i].epoch] {
				at[i].epoch++
			}
			if at[i].epoch < len(m.epochs[c.Op.Name]) {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return
		}
		i := rapid.SampledFrom(open).Draw(t, "next")
		e := m.epochs[task.Sources()[i].Op.Name][at[i].epoch]
		task.Begin(i, int64(at[i].epoch+1), 0)
		var err error
		if left := len(e.rows) - at[i].row; left > 0 {
			n := rapid.IntRange(1, left).Draw(t, "take")
			// The batch is overwritten afterwards, as its owner may do.
			l := &lender{rows: ids(slices.Clone(e.rows[at[i].row : at[i].row+n])...)}
			if rapid.Bool().Draw(t, "lent") {
				header := *l.rows
				err = task.sourceRows(i, 0, &header, l)
				header = batch.Batch{}
				lenders = append(lenders, l)
			} else {
				err = task.Rows(i, 0, l.rows)
				l.put(nil)
			}
			at[i].row += n
		} else {
			err = task.Mark(i, operators.Mark{Epoch: int64(at[i].epoch + 1), Watermark: e.watermark, Idle: e.idle, End: e.end})
			at[i] = cursor{at[i].epoch + 1, 0}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func compare(t *rapid.T, op *dataflow.Operator, r *record, m model, epochs int) {
	for e := range epochs {
		if want := m.rows(op, e); e >= len(r.rows) {
			if _, _, ended := m.state(op, e-1); !ended || len(want) > 0 {
				t.Fatalf("%s saw no epoch %d", op.Name, e)
			}
			return
		} else if !slices.Equal(r.rows[e], want) {
			t.Fatalf("%s in epoch %d: rows %v, want %v", op.Name, e, r.rows[e], want)
		}
		w, idle, end := m.state(op, e)
		if got := r.marks[e]; got.Watermark != w || got.Idle != idle || got.End != end {
			t.Fatalf("%s in epoch %d: mark %+v, want watermark %d idle %v end %v", op.Name, e, got, w, idle, end)
		}
	}
}

// TestStamp compares watermarks with a model, whatever the cut into batches: a batch has one watermark
// only if a later one could make none of its rows late.
func TestStamp(t *testing.T) {
	timeSchema := &dataflow.Schema{Columns: []dataflow.Column{{Name: "t", Type: dataflow.TimestampType, EventTime: true}}}
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(-20, 20), 0, 30).Draw(t, "times")
		delay := rapid.Int64Range(0, 10).Draw(t, "delay")
		w := watermarker{delay: delay, watermark: batch.MinWatermark}
		for from := 0; from < len(times); {
			to := min(len(times), from+rapid.IntRange(1, 10).Draw(t, "cut"))
			b := batch.New(timeSchema)
			b.Len = to - from
			b.Cols[0].Ints = times[from:to]
			w.stamp(b, 0)
			for i := range b.Len {
				want := batch.MinWatermark
				if at := from + i; at > 0 {
					want = slices.Max(times[:at]) - delay
				}
				got := b.RowWatermark(i)
				harmless := b.RowWatermarks == nil && got <= want && times[from+i] >= want
				if got != want && !harmless {
					t.Fatalf("row %d carries %d, want %d; times %v", from+i, got, want, times)
				}
			}
			from = to
		}
		if len(times) > 0 && w.watermark != slices.Max(times)-delay {
			t.Fatalf("watermark %d after %v", w.watermark, times)
		}
	})
}
