package operators

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

var numbers = &dataflow.Schema{Columns: []dataflow.Column{{Name: "n", Type: dataflow.IntType, Nullable: true}, {Name: "s", Type: dataflow.StringType}}}

// rowsOf makes a batch; math.MinInt64 stands for NULL.
func rowsOf(values ...int64) *batch.Batch {
	b := batch.New(numbers)
	for i, v := range values {
		if v == null {
			b.Cols[0].AppendNull()
		} else {
			b.Cols[0].Append(&batch.Vector{Type: dataflow.IntType, Len: 1, Ints: []int64{v}}, 0)
		}
		b.Cols[1].AppendBytes(fmt.Appendf(nil, "r%d", i))
	}
	b.Len = len(values)
	return b
}

const null = -1 << 63

// keep is an output that writes rows down.
type keep struct{ rows []string }

func (k *keep) Emit(b *batch.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	for i := range b.Len {
		if b.Sel == nil || slices.Contains(b.Sel, int32(i)) {
			k.rows = append(k.rows, string(AppendRow(nil, b, i)))
		}
	}
	return nil
}

// running makes an operator with a main output and one for errors.
func running(t *testing.T, desc *dataflow.Descriptor, make func(*Context) (Operator, error), params ...string) (o Operator, main, dead *keep, c *Context) {
	t.Helper()
	op := &dataflow.Operator{Name: "x", Type: desc.Name, Desc: desc, Inputs: []dataflow.Input{{Stream: "rows", Schema: numbers}},
		Outputs: []dataflow.Output{{Stream: "out", Schema: numbers}, {Stream: "errors", Port: "errors", Schema: ErrorsSchema}}}
	for i := 0; i < len(params); i += 2 {
		op.Params = append(op.Params, dataflow.Param{Name: params[i], Value: params[i+1]})
	}
	main, dead = &keep{}, &keep{}
	c = &Context{Op: op, Clock: new(int64), Counters: &Counters{}, Outputs: []Output{main, dead}}
	o, err := make(c)
	if err != nil {
		t.Fatal(err)
	}
	return o, main, dead, c
}

// process hands rows over as an executor does.
func process(o Operator, c *Context, b *batch.Batch) error {
	c.Counters.In.Add(int64(b.Rows()))
	return o.Process(0, b)
}

func TestFilter(t *testing.T) {
	o, main, _, c := running(t, Filter, NewFilter, "condition", "n > 1")
	b := rowsOf(1, 2, null, 3, 4)
	b.Sel = []int32{0, 1, 2, 4}
	if err := process(o, c, b); err != nil {
		t.Fatal(err)
	}
	if err := process(o, c, rowsOf(0, null)); err != nil {
		t.Fatal(err)
	}
	if want := []string{`{n: 2, s: "r1"}`, `{n: 4, s: "r4"}`}; !slices.Equal(main.rows, want) {
		t.Errorf("rows %v, want %v", main.rows, want)
	}
}

func TestMap(t *testing.T) {
	o, main, _, c := running(t, Map, NewMap, "select", "s, n * 2 AS m, n")
	b := rowsOf(1, null, 3)
	b.Sel = []int32{1, 2}
	if err := process(o, c, b); err != nil {
		t.Fatal(err)
	}
	if want := []string{`{s: "r1", m: NULL, n: NULL}`, `{s: "r2", m: 6, n: 3}`}; !slices.Equal(main.rows, want) {
		t.Errorf("rows %v, want %v", main.rows, want)
	}
}

// TestRowErrors: a row whose expression fails ends the query, is counted, or goes to the output for
// errors; when all rows of a batch fail, none goes on.
func TestRowErrors(t *testing.T) {
	for _, kind := range []struct {
		desc  *dataflow.Descriptor
		make  func(*Context) (Operator, error)
		param string
		good  []string
	}{
		{Filter, NewFilter, "condition", []string{`{n: 5, s: "r1"}`}},
		{Map, NewMap, "select", []string{"{q: true}"}},
	} {
		text := "10 / n > 1"
		if kind.param == "select" {
			text += " AS q"
		}
		t.Run(kind.desc.Name, func(t *testing.T) {
			o, _, _, c := running(t, kind.desc, kind.make, kind.param, text)
			err := process(o, c, rowsOf(1, 2))
			if err == nil {
				err = process(o, c, rowsOf(5, 0, 0))
			}
			if err == nil || !strings.Contains(err.Error(), `row 4 of stream "rows": division by zero in "10 / n"; the row is {n: 0, s: "r1"}`) {
				t.Errorf("fail: %v", err)
			}
			for policy, want := range map[string]struct{ skipped, dead int64 }{"skip": {3, 0}, "dead-letter": {0, 3}} {
				o, main, dead, c := running(t, kind.desc, kind.make, kind.param, text, "on-error", policy)
				err := errors.Join(process(o, c, rowsOf(0, 0)), process(o, c, rowsOf(0, 5)))
				if err != nil || !slices.Equal(main.rows, kind.good) {
					t.Errorf("%s: rows %v, error %v, want %v", policy, main.rows, err, kind.good)
				}
				if c.Counters.Skipped.Load() != want.skipped || c.Counters.Dead.Load() != want.dead || int64(len(dead.rows)) != want.dead {
					t.Errorf("%s: skipped %d, dead %d, dead letters %v", policy, c.Counters.Skipped.Load(), c.Counters.Dead.Load(), dead.rows)
				}
				if want.dead > 0 && dead.rows[2] != `{row: "{n: 0, s: \"r0\"}", place: "row 3 of stream \"rows\"", reason: "division by zero in \"10 / n\""}` {
					t.Errorf("dead letter %s", dead.rows[2])
				}
			}
		})
	}
}
