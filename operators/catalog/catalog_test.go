package catalog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

var numbers = &dataflow.Schema{Columns: []dataflow.Column{{Name: "n", Type: dataflow.IntType}}}

// rows is an output that keeps what it gets.
type rows struct{ got []int64 }

func (r *rows) Emit(b *batch.Batch) error {
	for i := range b.Len {
		if b.Sel == nil || slices.Contains(b.Sel, int32(i)) {
			r.got = append(r.got, b.Cols[0].Ints[i])
		}
	}
	return nil
}

// contextOf is what an operator of the type runs in, with so many inputs and outputs.
func contextOf(t *testing.T, operatorType string, inputs, outputs int, params ...string) (*operators.Context, []*rows) {
	t.Helper()
	op := &dataflow.Operator{Name: "x", Type: operatorType, Desc: Operators.Lookup(operatorType)}
	for i := 0; i < len(params); i += 2 {
		op.Params = append(op.Params, dataflow.Param{Name: params[i], Value: params[i+1]})
	}
	for range inputs {
		op.Inputs = append(op.Inputs, dataflow.Input{Stream: "in", Schema: numbers})
	}
	c := &operators.Context{Op: op, Clock: new(int64), Counters: &operators.Counters{}, Dir: t.TempDir()}
	var outs []*rows
	for i := range outputs {
		port := ""
		if op.Desc.ManyOutputs {
			port = fmt.Sprint(i + 1)
		}
		op.Outputs = append(op.Outputs, dataflow.Output{Stream: fmt.Sprint("out", i), Port: port, Type: "t", Schema: numbers})
		r := &rows{}
		outs = append(outs, r)
		c.Outputs = append(c.Outputs, r)
	}
	return c, outs
}

// oneEpoch gives the operator the rows 0 to 9 and ends the epoch.
func oneEpoch(t *testing.T, o operators.Operator, epoch int64) {
	t.Helper()
	b := batch.New(numbers)
	for n := range int64(10) {
		b.Cols[0].Append(&batch.Vector{Type: dataflow.IntType, Len: 1, Ints: []int64{n}}, 0)
	}
	b.Len = 10
	if err := o.Process(0, b); err != nil {
		t.Fatal(err)
	}
	if err := o.EndEpoch(operators.Mark{Epoch: epoch, Prev: epoch - 1}); err != nil {
		t.Fatal(err)
	}
}

// TestSet: rows are judged by the value that was set last, and a value that is refused changes nothing.
func TestSet(t *testing.T) {
	all := "[0 1 2 3 4 5 6 7 8 9]"
	for _, c := range []struct {
		operatorType, param, before, after, refused, message string
		more                                                 []string // parameters
		outputs                                              int
		cluster                                              bool
		first, second                                        string // what the outputs got in the first epoch and in the second
	}{
		{operatorType: "filter", param: "condition", before: "n < 2", after: "n > 7", refused: "m > 7", message: `unknown column`, outputs: 1,
			first: "[0 1]", second: "[8 9]"},
		{operatorType: "splitter", param: "routes", before: "0-719=1", after: "0-719=2", refused: "0-718=1", message: "key group 719 to no output",
			more: []string{"key", "n"}, outputs: 2, first: all + " []", second: "[] " + all},
		{operatorType: "splitter", param: "routes", before: "0-719=2", after: "0-719=1", refused: "0-719=3", message: "outputs 1-2",
			more: []string{"key", "n"}, outputs: 2, first: "[] " + all, second: all + " []"},
		{operatorType: "partition-filter", param: "groups", before: "0-719", after: "0-0", refused: "0-720", message: "groups must be",
			more: []string{"key", "n"}, outputs: 1, first: all, second: "[]"},
		{operatorType: "failover", param: "active", before: "1", after: "2", refused: "3", message: "number of an output, 1 to 2", outputs: 2,
			first: all + " []", second: "[] " + all},
		{operatorType: "failover", param: "active", before: "1", after: "2", refused: "0", message: "the least is 1", outputs: 2, cluster: true,
			first: all + " " + all, second: all + " " + all},
		{operatorType: "stream-selector", param: "active", before: "0", after: "1", refused: "2", message: "number of an input, 0 to 1", outputs: 1,
			first: all, second: all},
	} {
		t.Run(fmt.Sprint(c.operatorType, c.cluster, c.before), func(t *testing.T) {
			ctx, outs := contextOf(t, c.operatorType, 1, c.outputs, append(c.more, c.param, c.before)...)
			o, err := Build(ctx, Options{Limit: -1, Cluster: c.cluster})
			if err != nil {
				t.Fatal(err)
			}
			took := func() string {
				var text []string
				for _, r := range outs {
					text = append(text, fmt.Sprint(r.got))
					r.got = nil
				}
				return strings.Join(text, " ")
			}
			oneEpoch(t, o, 1)
			if got := took(); got != c.first {
				t.Errorf("before: %s, want %s", got, c.first)
			}
			if err := Set(ctx.Op, o, c.param, c.refused); err == nil || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%q: error %v, want %q", c.refused, err, c.message)
			}
			oneEpoch(t, o, 2)
			if got := took(); got != c.first {
				t.Errorf("after a value that is refused: %s, want %s", got, c.first)
			}
			if err := Set(ctx.Op, o, c.param, c.after); err != nil {
				t.Fatal(err)
			}
			oneEpoch(t, o, 3)
			if got := took(); got != c.second {
				t.Errorf("after: %s, want %s", got, c.second)
			}
		})
	}
}

// TestSetDefault: an empty value is that of a parameter that is left out.
func TestSetDefault(t *testing.T) {
	ctx, outs := contextOf(t, "failover", 1, 2, "active", "2")
	o, err := Build(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Set(ctx.Op, o, "active", ""); err != nil {
		t.Fatal(err)
	}
	oneEpoch(t, o, 1)
	if len(outs[0].got) != 10 || len(outs[1].got) != 0 {
		t.Errorf("outputs have %v and %v", outs[0].got, outs[1].got)
	}
	filter, _ := contextOf(t, "filter", 1, 1, "condition", "n > 1")
	if err := filter.Op.CheckSetting("condition", ""); err == nil {
		t.Error("an empty condition is accepted")
	}
}

// TestPreferred: the preference of a stream selector is there for whoever runs it.
func TestPreferred(t *testing.T) {
	ctx, _ := contextOf(t, "stream-selector", 2, 1)
	o, err := Build(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := o.(operators.Preferring)
	if p.Preferred() != -1 {
		t.Errorf("input %d is preferred by default", p.Preferred())
	}
	if err := Set(ctx.Op, o, "active", "2"); err != nil || p.Preferred() != 1 {
		t.Errorf("input %d is preferred, error %v", p.Preferred(), err)
	}
}

// TestNotSettable: what a descriptor does not let be set is refused, and so is what only the runtime knows
// how to set.
func TestNotSettable(t *testing.T) {
	for _, c := range [][]string{{"filter", "on-error", "skip"}, {"filter", "colour", "red"}, {"merge", "active", "1"}, {"netwriter", "target-addr", "127.0.0.1:1"}} {
		ctx, _ := contextOf(t, c[0], 1, 1, "condition", "n > 1")
		o, err := Build(ctx, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Set(ctx.Op, o, c[1], c[2]); err == nil || !strings.Contains(err.Error(), "cannot be set") {
			t.Errorf("%v: %v", c, err)
		}
		if s, ok := o.(operators.Settable); ok {
			if err := s.Set(c[1], c[2]); err == nil {
				t.Errorf("%v: the operator has taken it", c)
			}
		}
	}
	ctx, _ := contextOf(t, "netwriter", 1, 1)
	if err := ctx.Op.CheckSetting("target-addr", "127.0.0.1:1"); err != nil {
		t.Errorf("an address for a netwriter: %v", err)
	}
}

// TestSetRate: a source that waits for its rate goes on as soon as it may be faster.
func TestSetRate(t *testing.T) {
	ctx, _ := contextOf(t, "reader", 0, 1, "path", "in.csv", "rate", "0.001")
	if err := os.WriteFile(filepath.Join(ctx.Dir, "in.csv"), []byte("n\n1\n2\n3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSource(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Epochs().Interval == 0 {
		t.Error("epochs of a slow source have no interval")
	}
	if r, err := s.Next(context.Background(), 10); err != nil || r.Read != 1 {
		t.Fatal(r, err)
	}
	for _, bad := range []string{"-1", "fast", "Inf", "NaN"} {
		if err := Set(ctx.Op, s, "rate", bad); err == nil {
			t.Errorf("rate %s is accepted", bad)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Next(context.Background(), 10)
		done <- err
	}()
	select {
	case <-done:
		t.Fatal("the second row came at once")
	case <-time.After(20 * time.Millisecond):
	}
	if err := Set(ctx.Op, s, "rate", ""); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s.Epochs().Interval != 0 {
		t.Error("epochs of a bounded source without a rate have an interval")
	}
}
