package window

import (
	"strings"

	"sluice/dataflow"
	"sluice/operators"
	"sluice/operators/expr"
)

// properties tells rewrite rules what an aggregate allows: to be partitioned by its group-by, and to be
// merged from parts if no aggregate depends on the order of the rows.
func properties(op *dataflow.Operator) dataflow.Properties {
	key := expr.Items(op.Value("group-by"))
	p := dataflow.Properties{Deterministic: true, Keyed: len(key) > 0, Key: key, Splittable: len(key) > 0}
	if !p.Splittable {
		p.NotSplittable = "it has no group-by, so that all rows are one group"
	}
	spec, err := Parse(op.Value("window"))
	if err != nil {
		return p
	}
	plan, errs := compileOperator(op)
	if len(errs) > 0 {
		return p
	}
	p.KeyInputs, p.KeyOutputs = keyColumns(op.Inputs[0].Schema, plan)
	p.Commutative = !ordered(op, spec, plan)
	p.Associative = stages(op) != nil
	return p
}

// keyColumns are the columns of the input that are keys, and those of the output that hold them.
func keyColumns(in *dataflow.Schema, plan *expr.AggregatePlan) (inputs, outputs []string) {
	for i, k := range plan.Keys {
		input, output := "", ""
		if c := k.ColumnIndex(); c >= 0 {
			input = in.Columns[c].Name
		}
		for j, out := range plan.Output {
			if out.ColumnIndex() == i {
				output = plan.Schema.Columns[j].Name
			}
		}
		inputs, outputs = append(inputs, input), append(outputs, output)
	}
	return inputs, outputs
}

// ordered reports whether what comes depends on the order of the rows: which are in a window of rows,
// whether a late row still finds a session that another late row extends, which late row is in which
// correction, and what first and last give.
func ordered(op *dataflow.Operator, spec Spec, plan *expr.AggregatePlan) bool {
	if lateness, err := dataflow.ParseDuration(op.Value("allowed-lateness")); err != nil || lateness != 0 {
		return true
	}
	if spec.Kind == Rows || spec.Kind == Session {
		return true
	}
	for _, c := range plan.Calls {
		if c.Func == expr.First || c.Func == expr.Last {
			return true
		}
	}
	return false
}

// stages makes partial, merging and final aggregates of an aggregate. Rows of hopping and session
// windows cannot be told apart by window_time, and a late row would count for a part only; for these
// there is no decomposition.
func stages(op *dataflow.Operator) []dataflow.Stage {
	spec, err := Parse(op.Value("window"))
	if err != nil || spec.Kind != None && spec.Kind != Tumbling {
		return nil
	}
	lateness, err := dataflow.ParseDuration(op.Value("allowed-lateness"))
	if err != nil || lateness != 0 {
		return nil
	}
	in := &op.Inputs[0]
	text := expr.AggregateText{GroupBy: op.Value("group-by"), Select: op.Value("select"), Having: op.Value("having")}
	chain, err := expr.DecomposeAggregate(text, expr.NewScope(in.Scope(), in.Schema), spec.Timed())
	if err != nil {
		return nil
	}
	var list []dataflow.Stage
	for _, c := range chain {
		s := dataflow.Stage{Type: op.Type}
		for _, p := range []dataflow.Param{
			{Name: "group-by", Value: c.GroupBy}, {Name: "window", Value: op.Value("window")}, {Name: "select", Value: c.Select},
			{Name: "having", Value: c.Having}, {Name: "on-error", Value: operators.StagePolicy(op)},
		} {
			if strings.TrimSpace(p.Value) != "" {
				s.Params = append(s.Params, p)
			}
		}
		list = append(list, s)
	}
	return list
}

// compileOperator compiles the parameters of a resolved operator.
func compileOperator(op *dataflow.Operator) (*expr.AggregatePlan, expr.ParamErrors) {
	spec, err := Parse(op.Value("window"))
	if err != nil {
		return nil, expr.ParamErrors{{Param: "window", Error: expr.Error{Message: err.Error()}}}
	}
	in := &op.Inputs[0]
	return compile(op, in.Scope(), in.Schema, spec.Timed())
}
