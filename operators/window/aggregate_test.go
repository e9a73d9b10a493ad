package window

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// gather is an output that keeps rows as text.
type gather struct{ rows []string }

func (g *gather) Emit(b *batch.Batch) error {
	sel := b.Sel
	if sel == nil {
		for i := range b.Len {
			sel = append(sel, int32(i))
		}
	}
	for _, i := range sel {
		g.rows = append(g.rows, string(operators.AppendRow(nil, b, int(i))))
	}
	return nil
}

// inputSchema is the type of the stream that the tests aggregate.
var inputSchema = &dataflow.Schema{Columns: []dataflow.Column{
	{Name: "ts", Type: dataflow.TimestampType, EventTime: true},
	{Name: "k", Type: dataflow.StringType, Nullable: true},
	{Name: "v", Type: dataflow.IntType, Nullable: true},
}}

// second is one second in microseconds.
const second = 1_000_000

// event is a row of the tests; times are in seconds.
type event struct {
	time, watermark int64
	key             any
	value           any
}

func eventBatch(events []event) *batch.Batch {
	b := batch.New(inputSchema)
	var ts, keys, values []any
	b.RowWatermarks = []int64{}
	for _, e := range events {
		ts, keys, values = append(ts, e.time*second), append(keys, e.key), append(values, e.value)
		b.RowWatermarks = append(b.RowWatermarks, e.watermark*second)
	}
	b.Len = len(events)
	b.Cols = []batch.Vector{*vectorOf(dataflow.TimestampType, ts), *vectorOf(dataflow.StringType, keys), *vectorOf(dataflow.IntType, values)}
	return b
}

// rig is a running aggregate operator with its outputs.
type rig struct {
	t    interface{ Fatal(...any) }
	op   operators.Operator
	ctx  *operators.Context
	outs map[string]*gather
}

// newRig runs an aggregate with the given parameters ("name: value" each) and outputs.
func newRig(t interface{ Fatal(...any) }, ports []string, params ...string) *rig {
	op := &dataflow.Operator{Name: "agg", Type: "aggregate", Desc: Descriptor,
		Inputs: []dataflow.Input{{Stream: "in", Schema: inputSchema}}}
	for _, p := range params {
		name, value, _ := strings.Cut(p, ": ")
		op.Params = append(op.Params, dataflow.Param{Name: name, Value: value})
	}
	r := &rig{t: t, outs: map[string]*gather{}}
	r.ctx = &operators.Context{Op: op, Clock: new(int64), Counters: &operators.Counters{}}
	for _, p := range append([]string{""}, ports...) {
		op.Outputs = append(op.Outputs, dataflow.Output{Stream: "out" + p, Port: p})
		r.outs[p] = &gather{}
		r.ctx.Outputs = append(r.ctx.Outputs, r.outs[p])
	}
	var err error
	if r.op, err = New(r.ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) process(events ...event) error {
	b := eventBatch(events)
	r.ctx.Counters.In.Add(int64(b.Len))
	return r.op.Process(0, b)
}

func (r *rig) rows(events ...event) {
	if err := r.process(events...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) mark(watermark int64) {
	if err := r.op.EndEpoch(operators.Mark{Watermark: watermark * second}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) end() {
	if err := r.op.EndEpoch(operators.Mark{Watermark: batch.MaxWatermark, End: true}); err != nil {
		r.t.Fatal(err)
	}
}

// take returns what has come out of a port since the last take, a line for each row.
func (r *rig) take(port string) string {
	s := strings.Join(r.outs[port].rows, "\n")
	r.outs[port].rows = nil
	return s
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	want = strings.TrimSpace(strings.ReplaceAll(want, "\t", ""))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTumbling(t *testing.T) {
	r := newRig(t, []string{"late"}, "group-by: k", "window: tumbling(10s)", "select: k, count(*) AS n, sum(v) AS s, window_time")
	r.rows(event{1, -100, "b", int64(1)}, event{-1, -100, "a", int64(2)}, event{9, -100, "a", nil}, event{10, -100, "a", int64(3)}, event{2, -100, "b", int64(4)})
	r.mark(9)
	expect(t, r.take(""), `{k: "a", n: 1, s: 2, window_time: 1969-12-31T23:59:59.999999Z}`)
	r.rows(event{5, 9, nil, int64(5)}, event{5, 10, "b", int64(6)})
	r.mark(10)
	expect(t, r.take(""), `
		{k: "b", n: 2, s: 5, window_time: 1970-01-01T00:00:09.999999Z}
		{k: "a", n: 1, s: NULL, window_time: 1970-01-01T00:00:09.999999Z}
		{k: NULL, n: 1, s: 5, window_time: 1970-01-01T00:00:09.999999Z}`)
	expect(t, r.take("late"), `{ts: 1970-01-01T00:00:05Z, k: "b", v: 6}`)
	r.end()
	expect(t, r.take(""), `{k: "a", n: 1, s: 3, window_time: 1970-01-01T00:00:19.999999Z}`)
	if n := r.ctx.Counters.Late.Load(); n != 1 {
		t.Errorf("%d late rows, want 1", n)
	}
}

func TestAllowedLateness(t *testing.T) {
	r := newRig(t, []string{"late"}, "group-by: k", "window: tumbling(10s)", "allowed-lateness: 5s", "select: k, sum(v) AS s, first(v) AS f, last(v) AS l, window_end")
	r.rows(event{1, -100, "a", int64(1)}, event{2, -100, "b", int64(2)})
	// All of these come within one epoch: the window is emitted with the rows that were not late, and then
	// corrected once by each late row.
	r.rows(event{3, 10, "a", int64(10)}, event{4, 12, "c", int64(20)}, event{5, 14, "a", int64(100)}, event{6, 15, "a", int64(1000)})
	r.mark(15)
	expect(t, r.take(""), `
		{k: "a", s: 1, f: 1, l: 1, window_end: 1970-01-01T00:00:10Z}
		{k: "b", s: 2, f: 2, l: 2, window_end: 1970-01-01T00:00:10Z}
		{k: "a", s: 11, f: 1, l: 10, window_end: 1970-01-01T00:00:10Z}
		{k: "c", s: 20, f: 20, l: 20, window_end: 1970-01-01T00:00:10Z}
		{k: "a", s: 111, f: 1, l: 100, window_end: 1970-01-01T00:00:10Z}`)
	expect(t, r.take("late"), `{ts: 1970-01-01T00:00:06Z, k: "a", v: 1000}`)
	r.end()
	expect(t, r.take(""), "")
}

func TestSessions(t *testing.T) {
	r := newRig(t, []string{"late"}, "group-by: k", "window: session(5s)", "select: k, count(*) AS n, first(v) AS f, window_start, window_end")
	// A row exactly one gap later starts a new session; one between two sessions joins them.
	r.rows(event{0, -100, "a", int64(1)}, event{5, -100, "a", int64(2)}, event{20, -100, "a", int64(3)}, event{12, -100, "a", int64(4)}, event{16, -100, "a", int64(5)})
	r.mark(8)
	expect(t, r.take(""), `{k: "a", n: 1, f: 1, window_start: 1970-01-01T00:00:00Z, window_end: 1970-01-01T00:00:05Z}`)
	r.rows(event{3, 8, "a", int64(6)}, event{-2, 3, "a", int64(7)})
	r.end()
	expect(t, r.take(""), `
		{k: "a", n: 2, f: 2, window_start: 1970-01-01T00:00:03Z, window_end: 1970-01-01T00:00:10Z}
		{k: "a", n: 3, f: 3, window_start: 1970-01-01T00:00:12Z, window_end: 1970-01-01T00:00:25Z}`)
	expect(t, r.take("late"), `{ts: 1969-12-31T23:59:58Z, k: "a", v: 7}`)
}

func TestRows(t *testing.T) {
	r := newRig(t, nil, "group-by: k", "window: rows(3, 2)", "select: k, sum(v) AS s")
	for i := range 8 {
		r.rows(event{0, 0, []any{"a", "b"}[i%2], int64(i)})
	}
	expect(t, r.take(""), "{k: \"a\", s: 6}\n{k: \"b\", s: 9}")
	r.end()
	expect(t, r.take(""), "{k: \"a\", s: 10}\n{k: \"b\", s: 12}")
}

func TestWithoutWindow(t *testing.T) {
	r := newRig(t, nil, "select: count(*) AS n, sum(v) AS s, min(k) AS m")
	r.end()
	expect(t, r.take(""), "{n: 0, s: NULL, m: NULL}")

	r = newRig(t, nil, "select: count(*) AS n", "having: n > 0")
	r.end()
	expect(t, r.take(""), "")

	r = newRig(t, nil, "group-by: k", "select: k, max(v) FILTER (WHERE v < 5) AS m, count(DISTINCT v) AS d", "having: d > 1")
	r.rows(event{0, 0, "x", int64(7)}, event{0, 0, nil, int64(1)}, event{0, 0, nil, int64(2)}, event{0, 0, "x", int64(8)}, event{0, 0, "y", int64(1)})
	r.end()
	expect(t, r.take(""), "{k: \"x\", m: NULL, d: 2}\n{k: NULL, m: 2, d: 2}")
}

func TestBadRows(t *testing.T) {
	params := []string{"group-by: k", "window: tumbling(10s)", "select: k, sum(10 / v) AS s, 100 / sum(v) AS r"}
	bad := []event{{1, 0, "a", int64(5)}, {2, 0, "a", int64(0)}, {3, 0, "b", int64(-1)}, {3, 0, "b", int64(1)}}

	r := newRig(t, nil, params...)
	err := r.process(bad...)
	if err == nil || !strings.Contains(err.Error(), "division by zero") || !strings.Contains(err.Error(), "row 2") {
		t.Errorf("a bad row gives %v", err)
	}
	r = newRig(t, nil, params...)
	r.rows(bad[2:]...)
	err = r.op.EndEpoch(operators.Mark{End: true})
	if err == nil || !strings.Contains(err.Error(), "division by zero") || !strings.Contains(err.Error(), `k: "b"`) {
		t.Errorf("a bad group gives %v", err)
	}

	r = newRig(t, nil, append(params, "on-error: skip")...)
	r.rows(bad...)
	r.end()
	expect(t, r.take(""), `{k: "a", s: 2, r: 20}`)
	if n := r.ctx.Counters.Skipped.Load(); n != 2 {
		t.Errorf("%d rows skipped, want 2", n)
	}

	r = newRig(t, []string{"errors"}, append(params, "on-error: dead-letter")...)
	r.rows(bad...)
	r.end()
	expect(t, r.take(""), `{k: "a", s: 2, r: 20}`)
	if dead := r.outs["errors"].rows; len(dead) != 2 || !strings.Contains(dead[0], "row 2") || !strings.Contains(dead[1], "division by zero") {
		t.Errorf("dead letters %q", dead)
	}
}

func TestSumOverflow(t *testing.T) {
	const big = int64(1) << 62
	// A sum may leave the range of int on its way.
	r := newRig(t, nil, "select: sum(v) AS s")
	r.rows(event{0, 0, "a", big}, event{0, 0, "a", big}, event{0, 0, "a", -big})
	r.end()
	expect(t, r.take(""), "{s: 4611686018427387904}")

	r = newRig(t, nil, "select: sum(v) AS s")
	r.rows(event{0, 0, "a", big}, event{0, 0, "a", big})
	if err := r.op.EndEpoch(operators.Mark{End: true}); err == nil || !strings.Contains(err.Error(), "sum(v): the sum is out of the range of int") {
		t.Errorf("overflow gives %v", err)
	}
}

func TestIdleMarkDoesNotEmit(t *testing.T) {
	r := newRig(t, nil, "window: tumbling(10s)", "select: count(*) AS n")
	r.rows(event{0, -100, "a", nil})
	if err := r.op.EndEpoch(operators.Mark{Watermark: batch.MaxWatermark, Idle: true}); err != nil {
		t.Fatal(err)
	}
	expect(t, r.take(""), "")
	// A row with a watermark below one that has been reached counts as if it had the one reached.
	r.mark(10)
	r.rows(event{1, 3, "a", nil}, event{11, 3, "a", nil})
	r.end()
	expect(t, r.take(""), "{n: 1}\n{n: 1}")
}

// TestLatenessAfterIdle has rows whose watermark is below one that has been reached without them.
func TestLatenessAfterIdle(t *testing.T) {
	r := newRig(t, nil, "window: tumbling(10s)", "allowed-lateness: 5s", "select: count(*) AS n, window_end")
	r.rows(event{0, -100, "a", nil})
	r.mark(12)
	r.rows(event{1, 3, "a", nil})
	r.mark(13)
	expect(t, r.take(""), "{n: 1, window_end: 1970-01-01T00:00:10Z}\n{n: 2, window_end: 1970-01-01T00:00:10Z}")
	r.end()
	expect(t, r.take(""), "")

	r = newRig(t, []string{"late"}, "window: session(5s)", "select: count(*) AS n")
	r.mark(10)
	r.rows(event{1, 3, "a", nil})
	r.end()
	expect(t, r.take(""), "")
	expect(t, r.take("late"), `{ts: 1970-01-01T00:00:01Z, k: "a", v: NULL}`)
}

// TestCutsOfOperator runs the operator over the same rows cut in two ways into batches and epochs.
func TestCutsOfOperator(t *testing.T) {
	windows := []string{"tumbling(7s)", "hopping(9s, 4s)", "session(3s)", "rows(3, 2)", ""}
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.SampledFrom(windows).Draw(t, "window")
		params := []string{"group-by: k, v % 2 AS parity", "on-error: skip",
			"select: k, parity, count(*) AS n, avg(v) AS a, sum(12 / v) FILTER (WHERE v < 3) AS s, last(k || 'x') AS l", "having: n <> 3"}
		if window != "" {
			params = append(params, "window: "+window)
		}
		ports := []string{}
		if window != "" && window[0] != 'r' {
			ports = append(ports, "late")
			params = append(params, fmt.Sprintf("allowed-lateness: %ds", rapid.IntRange(0, 6).Draw(t, "lateness")))
		}
		var events []event
		seen, at := int64(-50), int64(-10)
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			at += rapid.Int64Range(0, 3).Draw(t, "step")
			e := event{time: at - rapid.Int64Range(0, 12).Draw(t, "back"), watermark: seen}
			e.key = rapid.SampledFrom([]any{"a", "b", nil, ""}).Draw(t, "key")
			e.value = rapid.SampledFrom([]any{int64(0), int64(1), int64(2), int64(5), nil}).Draw(t, "value")
			seen = max(seen, e.time-2)
			events = append(events, e)
		}
		run := func(name string) *rig {
			r := newRig(t, ports, params...)
			for i := 0; i < len(events); {
				to := min(len(events), i+rapid.IntRange(1, 10).Draw(t, name))
				r.rows(events[i:to]...)
				if w := events[to-1]; rapid.Bool().Draw(t, name+" epoch") {
					r.mark(max(w.watermark, w.time-2))
				}
				i = to
			}
			r.end()
			return r
		}
		a, b := run("first"), run("second")
		for port := range a.outs {
			x, y := a.outs[port].rows, b.outs[port].rows
			if !slices.Equal(x, y) {
				t.Fatalf("%s, output %q:\n%s\nand\n%s", window, port, strings.Join(x, "\n"), strings.Join(y, "\n"))
			}
		}
		if x, y := a.ctx.Counters.Late.Load(), b.ctx.Counters.Late.Load(); x != y {
			t.Fatalf("%d and %d times late", x, y)
		}
		if x, y := a.ctx.Counters.Skipped.Load(), b.ctx.Counters.Skipped.Load(); x != y {
			t.Fatalf("%d and %d rows skipped", x, y)
		}
	})
}
