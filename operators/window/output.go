package window

import (
	"fmt"

	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/operators/expr"
)

// outputs makes the operator's output rows out of batches of the intermediate schema.
type outputs struct {
	ctx    *operators.Context
	plan   *expr.AggregatePlan
	expr   expr.Context
	policy string
	main   operators.Output
	dead   *batch.Batch
	out    *batch.Batch
	having []int32
}

func (o *outputs) init(ctx *operators.Context, plan *expr.AggregatePlan) {
	o.ctx, o.plan = ctx, plan
	o.policy = ctx.Op.Value(operators.OnError.Name)
	o.main = ctx.Port("")
	o.out = batch.New(plan.Schema)
}

// emit takes a batch of groups; bad lists those without a result.
func (o *outputs) emit(b *batch.Batch, bad []fault) error {
	var sel []int32
	var errs []expr.RowError
	for _, f := range bad {
		errs = append(errs, expr.RowError{Row: f.row, Message: f.message})
	}
	sel, err := o.fail(b, sel, errs)
	if err != nil {
		return err
	}
	if o.plan.Having != nil {
		o.expr.Reset()
		o.having = o.plan.Having.Select(&o.expr, b, sel, o.having)
		if _, err := o.fail(b, sel, o.expr.Errors()); err != nil {
			return err
		}
		sel = o.having
	}
	o.expr.Reset()
	out := o.out
	for i, p := range o.plan.Output {
		if c := p.ColumnIndex(); c >= 0 {
			out.Cols[i] = b.Cols[c]
		} else {
			out.Cols[i] = *p.Eval(&o.expr, b, sel)
		}
	}
	if sel, err = o.fail(b, sel, o.expr.Errors()); err != nil {
		return err
	}
	out.Len, out.Sel, out.Watermark, out.RowWatermarks = b.Len, sel, b.Watermark, b.RowWatermarks
	if out.Rows() == 0 || o.main == nil {
		return nil
	}
	return o.main.Emit(out)
}

// fail deals with groups that failed, after on-error, and returns sel without them.
func (o *outputs) fail(b *batch.Batch, sel []int32, errs []expr.RowError) ([]int32, error) {
	if len(errs) == 0 {
		return sel, nil
	}
	switch o.policy {
	case "skip":
		o.ctx.Counters.Skipped.Add(int64(len(errs)))
	case "dead-letter":
		o.ctx.Counters.Dead.Add(int64(len(errs)))
		if err := o.deadLetter(b, errs); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%s; the group is %s", errs[0].Message, operators.AppendRow(nil, b, int(errs[0].Row)))
	}
	kept := make([]int32, 0, b.Rows())
	e := 0
	keep := func(row int32) {
		for e < len(errs) && errs[e].Row < row {
			e++
		}
		if e == len(errs) || errs[e].Row != row {
			kept = append(kept, row)
		}
	}
	if sel == nil {
		for i := range b.Len {
			keep(int32(i))
		}
	}
	for _, row := range sel {
		keep(row)
	}
	return kept, nil
}

func (o *outputs) deadLetter(b *batch.Batch, errs []expr.RowError) error {
	if o.dead == nil {
		o.dead = batch.New(operators.ErrorsSchema)
	}
	d := o.dead
	d.Reset()
	for _, e := range errs {
		d.Cols[0].AppendBytes(operators.AppendRow(nil, b, int(e.Row)))
		d.Cols[1].AppendBytes([]byte("a group"))
		d.Cols[2].AppendBytes([]byte(e.Message))
		d.RowWatermarks = append(d.RowWatermarks, b.RowWatermark(int(e.Row)))
	}
	d.Len = len(errs)
	return o.ctx.Port(operators.ErrorsPort.Name).Emit(d)
}
