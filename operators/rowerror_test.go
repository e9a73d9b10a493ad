package operators

import (
	"testing"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/expr"
)

// TestAllRowsBad: of a batch all of whose rows are bad nothing is left, also where it is the first one.
func TestAllRowsBad(t *testing.T) {
	op := &dataflow.Operator{Name: "m", Desc: Map, Params: []dataflow.Param{{Name: "on-error", Value: "skip"}}}
	ctx := &Context{Op: op, Counters: &Counters{}}
	b := batch.New(&dataflow.Schema{})
	b.Len = 2
	sel, err := NewRowErrors(ctx).Handle(b, nil, []expr.RowError{{Row: 0}, {Row: 1}})
	if sel == nil || len(sel) > 0 || err != nil {
		t.Errorf("rows %#v, error %v; want none, but not nil, which is all", sel, err)
	}
	if n := ctx.Counters.Skipped.Load(); n != 2 {
		t.Errorf("%d rows skipped", n)
	}
}
