package window

import (
	"errors"
	"strings"

	"sluice/dataflow"
	"sluice/operators"
	"sluice/operators/expr"
)

// latePort is the output that takes rows that came too late.
const latePort = "late"

// Descriptor describes the operator type "aggregate".
var Descriptor = &dataflow.Descriptor{
	Name: "aggregate",
	Doc: "Computes aggregate functions such as count, sum and avg over groups of rows, per window or over the whole stream. " +
		"Rows come out by the end and the start of their window, then by the first appearance of their group in it.",
	Params: []dataflow.ParamDesc{
		{Name: "group-by", Type: dataflow.TextParam, Doc: "Expressions, separated by commas; rows for which they are equal form a group, NULL being equal to NULL. Without it all rows are one group."},
		{Name: "window", Type: dataflow.WindowParam, Doc: "tumbling(SIZE), hopping(SIZE, HOP) or session(GAP) over event time, or rows(N) or rows(N, HOP) per group. Without it rows come when the stream ends."},
		{Name: "select", Type: dataflow.SelectParam, Required: true, Doc: "The columns of the output: group-by expressions, aggregates, window_start, window_end and window_time, and what is computed from them."},
		{Name: "having", Type: dataflow.ExpressionParam, Doc: "A condition on groups; it may use aggregates and the names of the select list."},
		{Name: "allowed-lateness", Type: dataflow.DurationParam, Default: "0s", Doc: "How long after its end a window still takes late rows; each makes it emit a corrected row."},
		operators.OnError,
	},
	MinInputs: 1, MaxInputs: 1, Output: true,
	Ports: []dataflow.PortDesc{
		operators.ErrorsPort,
		{Name: latePort, Doc: "Rows that came too late for all of their windows, as they were."},
	},
	Deterministic: true,
	Properties:    properties,
	Stages:        stages,
	Check:         check,
}

func check(c *dataflow.Check) []*dataflow.Schema {
	operators.CheckOnError(c)
	in := c.Inputs[0].Schema
	timed := true // after an error assume what makes the fewest others
	if spec, err := Parse(c.Op.Value("window")); err != nil {
		reportWindow(c, err)
	} else {
		timed = spec.Timed()
		checkTime(c, spec)
	}
	schemas := operators.OutputSchemas(c.Op, nil)
	if i := c.Op.OutputPort(latePort); i >= 0 {
		schemas[i] = in
	}
	plan, errs := compile(c.Op, c.Inputs[0].Stream, in, timed)
	for _, e := range errs {
		c.ParamErrorf(e.Param, e.Offset, e.Suggestion, "%s in %s", e.Message, e.Param)
	}
	if i := c.Op.OutputPort(""); i >= 0 && plan != nil && in != nil {
		schemas[i] = plan.Schema
	}
	return schemas
}

func compile(op *dataflow.Operator, stream string, in *dataflow.Schema, timed bool) (*expr.AggregatePlan, expr.ParamErrors) {
	return expr.CompileAggregate(op.Value("group-by"), op.Value("select"), op.Value("having"), expr.NewScope(stream, in), timed)
}

func reportWindow(c *dataflow.Check, err error) {
	var p *ParseError
	if errors.As(err, &p) {
		c.ParamErrorf("window", p.Offset, p.Suggestion, "%s", p.Message)
		return
	}
	c.ParamErrorf("window", 0, "", "%s", err)
}

// checkTime reports what does not go with the window.
func checkTime(c *dataflow.Check, spec Spec) {
	if spec.Timed() {
		checkEventTime(c)
		return
	}
	if d, err := dataflow.ParseDuration(c.Op.Value("allowed-lateness")); err == nil && d != 0 {
		c.ParamErrorf("allowed-lateness", 0, "", "allowed-lateness needs a window of time: tumbling, hopping or session")
	}
	if i := c.Op.OutputPort(latePort); i >= 0 {
		c.Report(dataflow.Diagnostic{Pos: c.Op.Outputs[i].Pos, Message: `output "late" needs a window of time: no row is late otherwise`})
	}
}

// checkEventTime reports an input without the event time that the window needs.
func checkEventTime(c *dataflow.Check) {
	in := c.Inputs[0]
	if in.Schema == nil || in.Schema.EventTime() >= 0 {
		return
	}
	var times []string
	for _, col := range in.Schema.Columns {
		if col.Type.Kind == dataflow.Timestamp {
			times = append(times, col.Name)
		}
	}
	const message = "window %s needs an event time, and stream %q has none; "
	window := c.Op.Value("window")
	switch len(times) {
	case 0:
		c.ParamErrorf("window", 0, "", message+"it has no timestamp column either; declare one with eventtime=\"true\" at the reader, or use rows(N)", window, in.Stream)
	default:
		c.ParamErrorf("window", 0, "", message+"declare it in the type of the stream's source: <column name=%q type=\"timestamp\" eventtime=\"true\"/> (timestamp columns: %s)",
			window, in.Stream, times[0], strings.Join(times, ", "))
	}
}
