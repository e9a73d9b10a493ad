package operators

import (
	"fmt"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/expr"
)

// OnError is the parameter that says what becomes of a bad row.
var OnError = dataflow.ParamDesc{
	Name: "on-error", Type: dataflow.EnumParam, Values: []string{"fail", "skip", "dead-letter"}, Default: "fail",
	Doc: "What becomes of a bad row: fail ends the run and names the row, skip counts it, dead-letter sends it to the output errors.",
}

// ErrorsPort is the output of an operator that takes its bad rows.
var ErrorsPort = dataflow.PortDesc{Name: "errors", Doc: "Bad rows, with on-error=dead-letter: the row, its place and the reason."}

// ErrorsSchema is the type of every output named errors.
var ErrorsSchema = &dataflow.Schema{Columns: []dataflow.Column{
	{Name: "row", Type: dataflow.StringType},
	{Name: "place", Type: dataflow.StringType},
	{Name: "reason", Type: dataflow.StringType},
}}

// CheckOnError reports an output errors without on-error=dead-letter, and the other way round.
func CheckOnError(c *dataflow.Check) {
	has := c.Op.OutputPort(ErrorsPort.Name) >= 0
	dead := c.Op.Value(OnError.Name) == "dead-letter"
	if dead && !has {
		c.ParamErrorf(OnError.Name, 0, "", `on-error is dead-letter, but the operator has no output named "errors"; add <output name="errors"/>`)
	}
	if has && !dead {
		c.Errorf(`output "errors" gets rows only with on-error=dead-letter; add <param name="on-error" value="dead-letter"/> or remove the output`)
	}
}

// RowErrors deals with the rows for which an operator's expressions failed, after its parameter on-error.
type RowErrors struct {
	ctx    *Context
	policy string
	out    Output
	dead   *batch.Batch
	sel    []int32
}

// NewRowErrors makes the RowErrors of an operator that has the parameter OnError.
func NewRowErrors(ctx *Context) *RowErrors {
	// An empty selection must not be nil, which would mean all rows.
	return &RowErrors{ctx: ctx, policy: ctx.Op.Value(OnError.Name), out: ctx.Port(ErrorsPort.Name), sel: []int32{}}
}

// Handle is called with the rows of b that failed, in rising order and each once. sel lists the rows
// that the operator works on (nil: all). It returns sel without the failed rows, which is not nil if
// there are any, valid until the next call, or the error that ends the query.
func (r *RowErrors) Handle(b *batch.Batch, sel []int32, errs []expr.RowError) ([]int32, error) {
	if len(errs) == 0 {
		return sel, nil
	}
	switch r.policy {
	case "skip":
		r.ctx.Counters.Skipped.Add(int64(len(errs)))
	case "dead-letter":
		r.ctx.Counters.Dead.Add(int64(len(errs)))
		if err := r.deadLetter(b, errs); err != nil {
			return nil, err
		}
	default:
		e := errs[0]
		return nil, fmt.Errorf("%s: %s; the row is %s", r.place(b, e.Row), e.Message, AppendRow(nil, b, int(e.Row)))
	}
	r.sel = without(r.sel[:0], b.Len, sel, errs)
	return r.sel, nil
}

// place names a row by its number in the operator's input.
func (r *RowErrors) place(b *batch.Batch, row int32) string {
	before := r.ctx.Counters.In.Load() - int64(b.Rows())
	n := int64(row)
	if b.Sel != nil {
		for n = 0; n < int64(len(b.Sel)) && b.Sel[n] < row; {
			n++
		}
	}
	return fmt.Sprintf("row %d of stream %q", before+n+1, r.ctx.Op.Inputs[0].Scope())
}

func (r *RowErrors) deadLetter(b *batch.Batch, errs []expr.RowError) error {
	if r.dead == nil {
		r.dead = batch.New(ErrorsSchema)
	}
	d := r.dead
	d.Reset()
	for _, e := range errs {
		d.Cols[0].AppendBytes(AppendRow(nil, b, int(e.Row)))
		d.Cols[1].AppendBytes([]byte(r.place(b, e.Row)))
		d.Cols[2].AppendBytes([]byte(e.Message))
		d.RowWatermarks = append(d.RowWatermarks, b.RowWatermark(int(e.Row)))
	}
	d.Len = len(errs)
	return r.out.Emit(d)
}

// without appends to dst the rows of sel (nil: 0 to n-1) that errs does not name.
func without(dst []int32, n int, sel []int32, errs []expr.RowError) []int32 {
	e := 0
	keep := func(row int32) {
		for e < len(errs) && errs[e].Row < row {
			e++
		}
		if e < len(errs) && errs[e].Row == row {
			return
		}
		dst = append(dst, row)
	}
	if sel == nil {
		for i := range n {
			keep(int32(i))
		}
	}
	for _, row := range sel {
		keep(row)
	}
	return dst
}

// AppendRow appends row i of b in the form {delay: 5, origin: "ATL"}, for messages and dead letters.
func AppendRow(dst []byte, b *batch.Batch, i int) []byte {
	dst = append(dst, '{')
	for c := range b.Cols {
		if c > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, b.Schema.Columns[c].Name...)
		dst = append(dst, ": "...)
		dst = appendValue(dst, &b.Cols[c], i)
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v *batch.Vector, i int) []byte {
	if v.IsNull(i) {
		return append(dst, "NULL"...)
	}
	if v.Type.Kind == dataflow.String {
		return fmt.Appendf(dst, "%q", v.Bytes(i))
	}
	return expr.AppendText(dst, v, i)
}
