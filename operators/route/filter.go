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
		{Name: "groups", Type: dataflow.TextParam, Required: true, Settable: true, Doc: "The key groups FIRST-LAST that are passed on, of 0-719."},
	},
	MinInputs: 1, MaxInputs: 1, Output: true,
	Added: true, Stateless: true, Deterministic: true, Divides: true,
	Check: func(c *dataflow.Check) []*dataflow.Schema {
		if c.Inputs[0].Schema != nil {
			_, errs := compileKey(c.Op, expr.NewScope(c.Inputs[0].Stream, c.Inputs[0].Schema))
			operators.ReportExpression(c, "key", errs)
		}
		if _, _, err := parseGroups(c.Op.Value("groups")); err != nil {
			c.ParamErrorf("groups", 0, "", "%s", err)
		}
		return operators.OutputSchemas(c.Op, c.Inputs[0].Schema)
	},
}

// parseGroups reads a range of key groups such as "180-359"; to is the one after the last.
func parseGroups(text string) (from, to int, err error) {
	a, b, _ := strings.Cut(text, "-")
	from, err1 := strconv.Atoi(a)
	last, err2 := strconv.Atoi(b)
	if err1 != nil || err2 != nil || from < 0 || from > last || last >= dataflow.KeyGroups {
		return 0, 0, fmt.Errorf("groups must be FIRST-LAST within 0-%d; it is %q", dataflow.KeyGroups-1, text)
	}
	return from, last + 1, nil
}

type partitionFilter struct {
	ctx      *operators.Context
	keys     *keyGroups
	from, to int
	sel      []int32
	out      batch.Batch
}

// NewPartitionFilter makes a running partition filter.
func NewPartitionFilter(ctx *operators.Context) (operators.Operator, error) {
	keys, err := newKeyGroups(ctx.Op)
	if err != nil {
		return nil, err
	}
	from, to, err := parseGroups(ctx.Op.Value("groups"))
	if err != nil {
		return nil, err
	}
	return &partitionFilter{ctx: ctx, keys: keys, from: from, to: to}, nil
}

// Process implements operators.Operator.
func (f *partitionFilter) Process(_ int, b *batch.Batch) error {
	hashes := f.keys.eval(*f.ctx.Clock, b)
	f.sel = f.sel[:0]
	if b.Sel == nil {
		for i, h := range hashes[:b.Len] {
			if g := expr.KeyGroup(h); g >= f.from && g < f.to {
				f.sel = append(f.sel, int32(i))
			}
		}
	}
	for _, i := range b.Sel {
		if g := expr.KeyGroup(hashes[i]); g >= f.from && g < f.to {
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

// Set implements operators.Settable.
func (f *partitionFilter) Set(param, value string) error {
	if param != "groups" {
		return operators.NotSettable(f.ctx.Op, param)
	}
	from, to, err := parseGroups(value)
	if err != nil {
		return err
	}
	f.from, f.to = from, to
	return nil
}
