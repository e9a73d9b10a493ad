package window

import (
	"fmt"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/operators/expr"
)

// aggregate is the running operator: it evaluates expressions and leaves the rest to a core.
type aggregate struct {
	ctx  *operators.Context
	plan *expr.AggregatePlan
	expr expr.Context
	bad  *operators.RowErrors
	core core

	time    int // the input's event time; -1: the window needs none
	late    operators.Output
	keep    bool // late rows are found at the end of the epoch, so the core needs their columns
	reached int64
	seq     int64

	dense       dense
	fingerprint string
	loading     bool // pieces of state have been given

	in      input
	current *batch.Batch // what Process was given
	passing []int32      // rows that a filter lets pass
	good    []int32      // rows that are left when there were bad ones
	masks   []batch.Bitmap
	lateOut batch.Batch
	outputs outputs
}

// New makes a running aggregate operator.
func New(ctx *operators.Context) (operators.Operator, error) {
	op := ctx.Op
	spec, err := Parse(op.Value("window"))
	if err != nil {
		return nil, err
	}
	lateness, err := dataflow.ParseDuration(op.Value("allowed-lateness"))
	if err != nil {
		return nil, err
	}
	in := &op.Inputs[0]
	plan, errs := compileOperator(op)
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s: %s", errs[0].Param, errs[0].Error)
	}
	a := &aggregate{ctx: ctx, plan: plan, bad: operators.NewRowErrors(ctx), time: -1, late: ctx.Port(latePort), reached: noWatermark}
	if spec.Timed() {
		if a.time = in.Schema.EventTime(); a.time < 0 {
			return nil, fmt.Errorf("window %s needs an event time, and stream %q has none", op.Value("window"), in.Stream)
		}
	}
	a.keep = a.late != nil && spec.Kind == Session
	a.outputs.init(ctx, plan)
	c := config{spec: spec, keys: keyTypes(plan), calls: calls(plan), inter: plan.Inter, lateness: lateness, sink: a}
	if a.keep {
		for _, col := range in.Schema.Columns {
			c.payload = append(c.payload, col.Type)
		}
	}
	a.core = newCore(c)
	if a.late == nil && (spec.Kind == Tumbling || spec.Kind == Hopping || spec.Kind == None) {
		a.dense = newDense(plan, in.Schema, a.time)
	}
	a.fingerprint = makeFingerprint(plan, c)
	a.prepare()
	return a, nil
}

func keyTypes(plan *expr.AggregatePlan) []dataflow.Type {
	types := make([]dataflow.Type, len(plan.Keys))
	for i, k := range plan.Keys {
		types[i] = k.Type()
	}
	return types
}

var functions = map[expr.AggregateFunc]function{
	expr.CountStar: countStar, expr.Count: count, expr.Sum: sum, expr.Avg: avg, expr.Min: minimum, expr.Max: maximum,
	expr.StddevSamp: stddevSamp, expr.VarSamp: varSamp, expr.First: first, expr.Last: last,
}

func calls(plan *expr.AggregatePlan) []call {
	list := make([]call, len(plan.Calls))
	for i, c := range plan.Calls {
		list[i] = call{fn: functions[c.Func], result: c.Type, distinct: c.Distinct, text: c.Text}
		if c.Arg != nil {
			list[i].arg = c.Arg.Type()
		}
	}
	return list
}

// prepare makes what Process fills.
func (a *aggregate) prepare() {
	n := len(a.plan.Calls)
	a.in.keys = make([]*batch.Vector, len(a.plan.Keys))
	a.in.args, a.in.masks, a.masks = make([]*batch.Vector, n), make([]batch.Bitmap, n), make([]batch.Bitmap, n)
	if a.keep {
		a.in.payload = make([]*batch.Vector, len(a.ctx.Op.Inputs[0].Schema.Columns))
	}
}

// Process implements operators.Operator.
func (a *aggregate) Process(_ int, b *batch.Batch) error {
	a.loaded()
	a.expr.Clock = *a.ctx.Clock
	a.current = b
	in := &a.in
	if in.bounded = false; a.time >= 0 {
		in.bounds, in.bounded = b.Bounds(a.time)
	}
	if a.dense.usable(b) {
		if done, err := a.processDense(b); done {
			return err
		}
	}
	in.n, in.sel, in.seq = b.Len, b.Sel, a.seq
	a.seq += int64(b.Len)
	if err := a.times(b); err != nil {
		return err
	}
	a.evaluate(b)
	if errs := a.expr.Errors(); len(errs) > 0 {
		if err := a.leaveOut(b, errs); err != nil {
			return err
		}
		a.expr.Reset()
	}
	in.watermark, in.watermarks = b.Watermark, b.RowWatermarks
	if a.keep {
		for i := range b.Cols {
			in.payload[i] = &b.Cols[i]
		}
	}
	return a.core.add(in)
}

// times takes the event times from b. A row without one is a bad row.
func (a *aggregate) times(b *batch.Batch) error {
	if a.time < 0 {
		return nil
	}
	v := &b.Cols[a.time]
	a.in.times = v.Ints
	if v.Valid == nil || v.Valid.Count(b.Len) == b.Len {
		return nil
	}
	var errs []expr.RowError
	for i := range a.in.rows() {
		r := int32(i)
		if b.Sel != nil {
			r = b.Sel[i]
		}
		if v.IsNull(int(r)) {
			errs = append(errs, expr.RowError{Row: r, Message: "the event time is NULL"})
		}
	}
	return a.leaveOut(b, errs)
}

// leaveOut deals with bad rows and takes them out of in.sel.
func (a *aggregate) leaveOut(b *batch.Batch, errs []expr.RowError) error {
	sel, err := a.bad.Handle(b, a.in.sel, errs)
	if err != nil || len(errs) == 0 {
		return err
	}
	// A copy, for the next errors use the same memory; and never nil, which would be all rows.
	a.good = append(a.good[:0], sel...)
	if a.in.sel = a.good; a.good == nil {
		a.in.sel = []int32{}
	}
	return nil
}

// evaluate computes the group-by expressions, filters and arguments.
func (a *aggregate) evaluate(b *batch.Batch) {
	in := &a.in
	for i, k := range a.plan.Keys {
		in.keys[i] = a.eval(k, b, in.sel)
	}
	for i := range a.plan.Calls {
		c := &a.plan.Calls[i]
		sel := in.sel
		if c.Filter != nil {
			a.passing = c.Filter.Select(&a.expr, b, sel, a.passing)
			sel = a.passing
			a.masks[i] = batch.GrowBitmap(a.masks[i], b.Len)
			a.masks[i].Fill(b.Len, false)
			for _, r := range sel {
				a.masks[i].Set(int(r))
			}
			in.masks[i] = a.masks[i]
		}
		if c.Arg != nil {
			in.args[i] = a.eval(c.Arg, b, sel)
		}
	}
}

func (a *aggregate) eval(p *expr.Program, b *batch.Batch, sel []int32) *batch.Vector {
	if c := p.ColumnIndex(); c >= 0 {
		return &b.Cols[c]
	}
	return p.Eval(&a.expr, b, sel)
}

// EndEpoch implements operators.Operator.
func (a *aggregate) EndEpoch(m operators.Mark) error {
	a.loaded()
	a.outputs.expr.Clock = m.Clock
	if m.End {
		return a.core.end()
	}
	if !m.Idle {
		a.reached = max(a.reached, m.Watermark)
	}
	return a.core.advance(a.reached)
}

// results implements sink.
func (a *aggregate) results(b *batch.Batch, bad []fault) error {
	return a.outputs.emit(b, bad)
}

// lateRows implements sink.
func (a *aggregate) lateRows(rows []int32) error {
	if a.late == nil {
		return nil
	}
	a.lateOut = *a.current
	a.lateOut.Sel = rows
	return a.late.Emit(&a.lateOut)
}

// lateCopies implements sink.
func (a *aggregate) lateCopies(cols []batch.Vector, watermarks []int64) error {
	a.lateOut = batch.Batch{Schema: a.ctx.Op.Inputs[0].Schema, Len: len(watermarks), Cols: cols, RowWatermarks: watermarks}
	return a.late.Emit(&a.lateOut)
}

// countLate implements sink.
func (a *aggregate) countLate(n int64) { a.ctx.Counters.Late.Add(n) }
