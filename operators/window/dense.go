package window

import (
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/expr"
)

// dense takes the selected rows out of batches, as far as the expressions need their columns: what each aggregate
// does for a row is so little that going by a list of rows would cost as much again.
type dense struct {
	cols []int // nil: rows are taken as they are
	time int   // the event time, -1 if it is not needed
	out  batch.Batch
}

// newDense looks what the plan needs. Text is left where it is, for it is not as cheap to copy.
func newDense(plan *expr.AggregatePlan, in *dataflow.Schema, time int) dense {
	programs := slices.Clone(plan.Keys)
	for i := range plan.Calls {
		for _, p := range []*expr.Program{plan.Calls[i].Arg, plan.Calls[i].Filter} {
			if p != nil {
				programs = append(programs, p)
			}
		}
	}
	cols := []int{}
	for _, p := range programs {
		for _, c := range p.Columns() {
			switch in.Columns[c].Type.Kind {
			case dataflow.Int, dataflow.Timestamp, dataflow.Duration, dataflow.Float:
				cols = append(cols, c)
			default:
				return dense{}
			}
		}
	}
	slices.Sort(cols)
	return dense{cols: slices.Compact(cols), time: time}
}

// usable reports whether there is something to take out of b. NULLs are left where they are.
func (d *dense) usable(b *batch.Batch) bool {
	return d.cols != nil && b.Sel != nil && (d.time < 0 || b.Cols[d.time].Valid == nil) &&
		!slices.ContainsFunc(d.cols, func(c int) bool { return b.Cols[c].Valid != nil })
}

// of is the selected rows of b. It has only the columns that are needed, and neither times nor watermarks.
func (d *dense) of(b *batch.Batch) *batch.Batch {
	if len(d.out.Cols) != len(b.Cols) {
		d.out.Cols = make([]batch.Vector, len(b.Cols))
	}
	d.out.Schema, d.out.Len = b.Schema, len(b.Sel)
	for _, c := range d.cols {
		d.out.Cols[c].Gather(&b.Cols[c], b.Sel)
	}
	return &d.out
}

// processDense is Process for a batch whose rows are to be taken out. It does nothing if there are bad rows, which are
// shown with all of their columns.
func (a *aggregate) processDense(b *batch.Batch) (done bool, err error) {
	in := &a.in
	in.n, in.sel, in.seq = len(b.Sel), nil, a.seq
	a.evaluate(a.dense.of(b))
	if len(a.expr.Errors()) > 0 {
		a.expr.Reset()
		return false, nil
	}
	a.seq += int64(in.n)
	in.times, in.watermark, in.watermarks = nil, b.Watermark, nil
	in.origin = origin{sel: b.Sel, watermarks: b.RowWatermarks}
	if a.time >= 0 {
		in.origin.times = b.Cols[a.time].Ints
	}
	err = a.core.add(in)
	in.origin = origin{}
	return true, err
}

// origin is where the times and watermarks of an input are that are missing there.
type origin struct {
	sel               []int32 // nil: none are missing
	times, watermarks []int64
}

// gatherTimes brings times and watermarks to in. It is called by cores that look at single ones.
func (in *input) gatherTimes() {
	o := &in.origin
	if o.sel == nil {
		return
	}
	in.times = gatherRows(&in.timesOwn, o.times, o.sel)
	in.watermarks = gatherRows(&in.watermarksOwn, o.watermarks, o.sel)
	o.sel = nil
}

// gatherRows is the listed rows of src, in the memory of own; nil if there is no src.
func gatherRows(own *[]int64, src []int64, sel []int32) []int64 {
	if src == nil {
		return nil
	}
	*own = extend(*own, len(sel))
	out := (*own)[:len(sel)]
	for i, r := range sel {
		out[i] = src[r]
	}
	return out
}
