package operators

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/expr"
)

// Filter describes the operator type "filter".
var Filter = &dataflow.Descriptor{
	Name: "filter",
	Doc:  "Passes on the rows for which a condition is true.",
	Params: []dataflow.ParamDesc{
		{Name: "condition", Type: dataflow.ExpressionParam, Required: true, Settable: true, Doc: "The condition; a row for which it is NULL is dropped."},
		OnError,
	},
	MinInputs: 1, MaxInputs: 1, Output: true,
	Ports:     []dataflow.PortDesc{ErrorsPort},
	Stateless: true, Deterministic: true,
	Stages: filterStages,
	Check: func(c *dataflow.Check) []*dataflow.Schema {
		CheckOnError(c)
		_, errs := expr.CompilePredicate(c.Op.Value("condition"), expr.NewScope(c.Inputs[0].Stream, c.Inputs[0].Schema))
		ReportExpression(c, "condition", errs)
		return OutputSchemas(c.Op, c.Inputs[0].Schema)
	},
}

// filterStages makes a filter of each condition that AND joins, in their order: a later one is only
// asked where those before it are true, as in the whole.
func filterStages(op *dataflow.Operator) []dataflow.Stage {
	parts := expr.Conjuncts(op.Value("condition"))
	if len(parts) < 2 {
		return nil
	}
	var stages []dataflow.Stage
	for _, c := range parts {
		stages = append(stages, dataflow.Stage{Type: op.Type, Params: []dataflow.Param{
			{Name: "condition", Value: c}, {Name: OnError.Name, Value: StagePolicy(op)},
		}})
	}
	return stages
}

// StagePolicy is the parameter on-error of the stages of op. A stage has no output errors; where that of
// op has a reader, no rule may divide it, and where it has none, skipping a bad row does the same.
func StagePolicy(op *dataflow.Operator) string {
	if policy := op.Value(OnError.Name); policy != "dead-letter" {
		return policy
	}
	return "skip"
}

// OutputSchemas gives the schema of each output of op, whose main output is of type main.
func OutputSchemas(op *dataflow.Operator, main *dataflow.Schema) []*dataflow.Schema {
	schemas := make([]*dataflow.Schema, len(op.Outputs))
	for i, o := range op.Outputs {
		switch o.Port {
		case "":
			schemas[i] = main
		case ErrorsPort.Name:
			schemas[i] = ErrorsSchema
		}
	}
	return schemas
}

// ReportExpression reports the faults of the expression in a parameter.
func ReportExpression(c *dataflow.Check, param string, errs expr.Errors) {
	for _, e := range errs {
		c.ParamErrorf(param, e.Offset, e.Suggestion, "%s in %s", e.Message, param)
	}
}

type filter struct {
	ctx       *Context
	condition *expr.Program
	expr      expr.Context
	bad       *RowErrors
	sel       []int32
	out       batch.Batch
}

// NewFilter makes a running filter.
func NewFilter(ctx *Context) (Operator, error) {
	p, err := compileCondition(ctx.Op, ctx.Op.Value("condition"))
	if err != nil {
		return nil, err
	}
	return &filter{ctx: ctx, condition: p, bad: NewRowErrors(ctx)}, nil
}

func compileCondition(op *dataflow.Operator, text string) (*expr.Program, error) {
	in := &op.Inputs[0]
	p, errs := expr.CompilePredicate(text, expr.NewScope(in.Scope(), in.Schema))
	if len(errs) > 0 {
		return nil, errs
	}
	return p, nil
}

func (f *filter) Process(_ int, b *batch.Batch) error {
	f.expr.Clock = *f.ctx.Clock
	f.sel = f.condition.Select(&f.expr, b, b.Sel, f.sel)
	if errs := f.expr.Errors(); len(errs) > 0 {
		// A row that failed is not in f.sel, for its condition is NULL.
		if _, err := f.bad.Handle(b, b.Sel, errs); err != nil {
			return err
		}
		f.expr.Reset()
	}
	out := f.ctx.Port("")
	switch {
	case len(f.sel) == 0 || out == nil:
		return nil
	case len(f.sel) == b.Rows():
		return out.Emit(b)
	}
	f.out = *b
	f.out.Sel = f.sel
	return out.Emit(&f.out)
}

func (f *filter) EndEpoch(Mark) error { return nil }

// Set implements Settable.
func (f *filter) Set(param, value string) error {
	if param != "condition" {
		return NotSettable(f.ctx.Op, param)
	}
	p, err := compileCondition(f.ctx.Op, value)
	if err != nil {
		return err
	}
	f.condition = p
	return nil
}
