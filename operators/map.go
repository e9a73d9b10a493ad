package operators

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/expr"
)

// Map describes the operator type "map".
var Map = &dataflow.Descriptor{
	Name: "map",
	Doc:  "Makes each row into another one, column by column.",
	Params: []dataflow.ParamDesc{
		{Name: "select", Type: dataflow.SelectParam, Required: true, Doc: "The columns of the new row, such as a, b * 2 AS c, *; a computed column needs AS."},
		OnError,
	},
	MinInputs: 1, MaxInputs: 1, Output: true,
	Ports:     []dataflow.PortDesc{ErrorsPort},
	Stateless: true, Deterministic: true,
	Copied: copied,
	Check: func(c *dataflow.Check) []*dataflow.Schema {
		CheckOnError(c)
		in := c.Inputs[0].Schema
		plan, errs := expr.CompileSelect(c.Op.Value("select"), expr.NewScope(c.Inputs[0].Stream, in))
		ReportExpression(c, "select", errs)
		if plan == nil || in == nil {
			return OutputSchemas(c.Op, nil)
		}
		return OutputSchemas(c.Op, plan.Schema)
	},
}

// copied are the columns that a map passes on.
func copied(op *dataflow.Operator) map[string]string {
	in := &op.Inputs[0]
	columns := map[string]string{}
	plan, errs := expr.CompileSelect(op.Value("select"), expr.NewScope(in.Scope(), in.Schema))
	if len(errs) > 0 {
		return columns
	}
	for i, p := range plan.Columns {
		if c := p.ColumnIndex(); c >= 0 {
			columns[plan.Schema.Columns[i].Name] = in.Schema.Columns[c].Name
		}
	}
	return columns
}

type mapper struct {
	ctx  *Context
	plan *expr.SelectPlan
	expr expr.Context
	bad  *RowErrors
	out  *batch.Batch
}

// NewMap makes a running map.
func NewMap(ctx *Context) (Operator, error) {
	in := &ctx.Op.Inputs[0]
	plan, errs := expr.CompileSelect(ctx.Op.Value("select"), expr.NewScope(in.Scope(), in.Schema))
	if len(errs) > 0 {
		return nil, errs
	}
	return &mapper{ctx: ctx, plan: plan, bad: NewRowErrors(ctx), out: batch.New(plan.Schema)}, nil
}

func (m *mapper) Process(_ int, b *batch.Batch) error {
	m.expr.Clock = *m.ctx.Clock
	o := m.out
	o.Len, o.Sel, o.Watermark, o.RowWatermarks = b.Len, b.Sel, b.Watermark, b.RowWatermarks
	for i, p := range m.plan.Columns {
		if c := p.ColumnIndex(); c >= 0 {
			o.Cols[i] = b.Cols[c]
		} else {
			o.Cols[i] = *p.Eval(&m.expr, b, b.Sel)
		}
	}
	if errs := m.expr.Errors(); len(errs) > 0 {
		sel, err := m.bad.Handle(b, b.Sel, errs)
		if err != nil {
			return err
		}
		o.Sel = sel
		m.expr.Reset()
	}
	out := m.ctx.Port("")
	if out == nil || o.Rows() == 0 {
		return nil
	}
	return out.Emit(o)
}

func (m *mapper) EndEpoch(Mark) error { return nil }
