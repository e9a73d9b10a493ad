package operators

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// Union describes the operator type "union".
var Union = &dataflow.Descriptor{
	Name:      "union",
	Doc:       "Joins streams of one type into one. Within an epoch the rows come input by input.",
	MinInputs: 1, MaxInputs: -1, Output: true,
	Stateless: true, Deterministic: true,
	Check: func(c *dataflow.Check) []*dataflow.Schema {
		return OutputSchemas(c.Op, CommonSchema(c))
	},
}

// CommonSchema is for operators whose inputs must be of one type: it reports inputs that differ, and
// returns the type of the first, with each column nullable that is so in any.
func CommonSchema(c *dataflow.Check) *dataflow.Schema {
	var out *dataflow.Schema
	first := ""
	for _, in := range c.Inputs {
		switch {
		case in.Schema == nil:
		case out == nil:
			out = &dataflow.Schema{Columns: append([]dataflow.Column(nil), in.Schema.Columns...)}
			first = in.Stream
		case !sameColumns(out, in.Schema):
			c.Errorf("the inputs must have one type, but stream %q is %s and stream %q is %s", first, out, in.Stream, in.Schema)
		default:
			for i := range out.Columns {
				out.Columns[i].Nullable = out.Columns[i].Nullable || in.Schema.Columns[i].Nullable
			}
		}
	}
	return out
}

func sameColumns(a, b *dataflow.Schema) bool {
	if len(a.Columns) != len(b.Columns) {
		return false
	}
	for i, x := range a.Columns {
		y := b.Columns[i]
		known := x.Type.Kind != dataflow.Invalid && y.Type.Kind != dataflow.Invalid
		if x.Name != y.Name || x.EventTime != y.EventTime || known && x.Type != y.Type {
			return false
		}
	}
	return true
}

type union struct {
	out    Output
	schema *dataflow.Schema
	batch  batch.Batch
}

// NewUnion makes a running union.
func NewUnion(ctx *Context) (Operator, error) {
	u := &union{out: ctx.Port("")}
	if i := ctx.Op.OutputPort(""); i >= 0 {
		u.schema = ctx.Op.Outputs[i].Schema
	}
	return u, nil
}

func (u *union) Process(_ int, b *batch.Batch) error {
	if u.out == nil {
		return nil
	}
	u.batch = *b
	u.batch.Schema = u.schema
	return u.out.Emit(&u.batch)
}

func (u *union) EndEpoch(Mark) error { return nil }
