package route

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/operators/expr"
)

// PartitionFilter describes the operator type "partition-filter".
var PartitionFilter = &dataflow.Descriptor{
	Name: "partition-filter",
	Doc:  "Passes on the rows whose key falls into a range of key groups.",
	Params: []dataflow.ParamDesc{
		{Name: "key", Type: dataflow.TextParam, Required: true, Doc: "Expressions, separated by commas."},
		{Name: "range", Type: dataflow.TextParam, Required: true, Settable: true, Doc: "Key groups FROM-TO, TO excluded, of 0 to 720; or I/K, part I (from 1) of K equal ones."},
	},
	MinInputs: 1, MaxInputs: 1, Output: true,
	Stateless: true, Deterministic: true,
	Check: func(c *dataflow.Check) []*dataflow.Schema {
		if c.Inputs[0].Schema != nil {
			_, errs := compileKey(c.Op, expr.NewScope(c.Inputs[0].Stream, c.Inputs[0].Schema))
			operators.ReportExpression(c, "key", errs)
		}
		if _, _, err := parseRange(c.Op.Value("range")); err != nil {
			c.ParamErrorf("range", 0, "", "%s", err)
		}
		return operators.OutputSchemas(c.Op, c.Inputs[0].Schema)
	},
}

// parseRange reads "180-360" and "2/4".
func parseRange(text string) (from, to int, err error) {
	wrong := fmt.Errorf("range must be FROM-TO within 0-%d, or I/K with I from 1 to K; it is %q", dataflow.KeyGroups, text)
	if a, b, ok := strings.Cut(text, "/"); ok {
		i, err1 := strconv.Atoi(a)
		k, err2 := strconv.Atoi(b)
		if err1 != nil || err2 != nil || i < 1 || i > k || k > dataflow.KeyGroups {
			return 0, 0, wrong
		}
		from, to = GroupRange(i-1, k)
		return from, to, nil
	}
	a, b, _ := strings.Cut(text, "-")
	from, err1 := strconv.Atoi(a)
	to, err2 := strconv.Atoi(b)
	if err1 != nil || err2 != nil || from < 0 || from > to || to > dataflow.KeyGroups {
		return 0, 0, wrong
	}
	return from, to, nil
}

type partitionFilter struct {
	ctx      *operators.Context
	keys     keyGroups
	from, to uint64
	sel      []int32
	out      batch.Batch
}

// NewPartitionFilter makes a running partition filter.
func NewPartitionFilter(ctx *operators.Context) (operators.Operator, error) {
	in := &ctx.Op.Inputs[0]
	p, errs := compileKey(ctx.Op, expr.NewScope(in.Scope(), in.Schema))
	if len(errs) > 0 {
		return nil, errs
	}
	from, to, err := parseRange(ctx.Op.Value("range"))
	if err != nil {
		return nil, err
	}
	return &partitionFilter{ctx: ctx, keys: keyGroups{hash: p}, from: uint64(from), to: uint64(to)}, nil
}

// Process implements operators.Operator.
func (f *partitionFilter) Process(_ int, b *batch.Batch) error {
	hashes, err := f.keys.eval(*f.ctx.Clock, b)
	if err != nil {
		return err
	}
	f.sel = f.sel[:0]
	if b.Sel == nil {
		for i, h := range hashes[:b.Len] {
			if g := groupOf(h); g >= f.from && g < f.to {
				f.sel = append(f.sel, int32(i))
			}
		}
	}
	for _, i := range b.Sel {
		if g := groupOf(hashes[i]); g >= f.from && g < f.to {
			f.sel = append(f.sel, i)
		}
	}
	out := f.ctx.Port("")
	if len(f.sel) == 0 || out == nil {
		return nil
	}
	f.out = *b
	f.out.Sel = f.sel
	return out.Emit(&f.out)
}

// EndEpoch implements operators.Operator.
func (f *partitionFilter) EndEpoch(operators.Mark) error { return nil }
