package window

import (
	"strings"
	"testing"

	"sluice/dataflow"
)

// checkWith checks an aggregate over the input schema with parameters "name: value" and outputs.
func checkWith(in *dataflow.Schema, ports []string, params ...string) ([]*dataflow.Schema, []string) {
	op := &dataflow.Operator{Name: "agg", Type: "aggregate", Desc: Descriptor, Inputs: []dataflow.Input{{Stream: "in", Schema: in}}}
	for _, p := range params {
		name, value, _ := strings.Cut(p, ": ")
		op.Params = append(op.Params, dataflow.Param{Name: name, Value: value,
			Text: dataflow.Text{{Pos: dataflow.Pos{File: name, Line: 1, Col: 1}}}})
	}
	for _, p := range append([]string{""}, ports...) {
		op.Outputs = append(op.Outputs, dataflow.Output{Stream: "out" + p, Port: p})
	}
	var said []string
	c := dataflow.NewCheck(op, []dataflow.CheckInput{{Stream: "in", Schema: in}}, make([]*dataflow.Schema, len(op.Outputs)),
		func(d dataflow.Diagnostic) { said = append(said, d.String()) })
	return Descriptor.Check(c), said
}

func TestCheck(t *testing.T) {
	schemas, said := checkWith(inputSchema, []string{"late", "errors"}, "group-by: k", "window: tumbling(10s)",
		"select: k, count(*) AS n, window_time", "allowed-lateness: 5s", "on-error: dead-letter")
	if len(said) > 0 {
		t.Fatal(said)
	}
	if got, want := schemas[0].String(), "(k string, n int not null, window_time timestamp eventtime not null)"; got != want {
		t.Errorf("the output is %s, want %s", got, want)
	}
	if schemas[1] != inputSchema || schemas[2].Index("reason") < 0 {
		t.Errorf("late rows are %s, errors %s", schemas[1], schemas[2])
	}
}

func TestCheckErrors(t *testing.T) {
	noTime := &dataflow.Schema{Columns: []dataflow.Column{{Name: "k", Type: dataflow.StringType}, {Name: "at", Type: dataflow.TimestampType}}}
	bare := &dataflow.Schema{Columns: noTime.Columns[:1]}
	for _, c := range []struct {
		in     *dataflow.Schema
		ports  []string
		params []string
		want   []string
	}{
		{inputSchema, nil, []string{"window: hoping(10s, 2s)", "select: count(*) AS n, window_end"},
			[]string{`window:1:1: operator "agg": unknown window "hoping"; did you mean "hopping"?`}},
		{inputSchema, nil, []string{"window: hopping(10s, 2x)", "select: kk, count(*) AS n", "group-by: k", "having: m > 1"},
			[]string{`window:1:14: operator "agg": "2x" is not a duration`, `select:1:1: operator "agg": unknown column "kk" in select; did you mean "k"?`, `having:1:1:`}},
		{noTime, nil, []string{"window: tumbling(1s)", "select: count(*) AS n"},
			[]string{`window tumbling(1s) needs an event time, and stream "in" has none; declare it in the type of the stream's source: <column name="at" type="timestamp" eventtime="true"/>`}},
		{bare, nil, []string{"window: session(1s)", "select: count(*) AS n"}, []string{`it has no timestamp column either`}},
		{noTime, []string{"late"}, []string{"window: rows(5)", "allowed-lateness: 5s", "select: count(*) AS n"},
			[]string{`allowed-lateness needs a window of time`, `output "late" needs a window of time`}},
		{noTime, nil, []string{"select: count(*) AS n, window_end"}, []string{`window_end needs a window of time`}},
		{nil, nil, []string{"window: tumbling(1)", "select: count(*) AS n"}, []string{`needs a unit`}},
	} {
		_, said := checkWith(c.in, c.ports, c.params...)
		if len(said) != len(c.want) {
			t.Errorf("%v: said %q, want %q", c.params, said, c.want)
			continue
		}
		for i, w := range c.want {
			if !strings.Contains(said[i], w) {
				t.Errorf("%v: said %q, want %q", c.params, said[i], w)
			}
		}
	}
}
