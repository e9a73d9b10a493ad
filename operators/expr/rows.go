package expr

import (
	"sluice/dataflow/batch"
)

// maxVectorText bounds the text of one computed vector, well inside the offsets' range.
const maxVectorText = 1 << 30

const textTooLong = "text too long"

// callBase is what the calls of functions have in common that are computed row by row and are NULL
// where an argument is.
type callBase struct {
	result
	args []evaluator
	vecs []*batch.Vector
}

func newCallBase(b *builder, t *typed) callBase {
	return callBase{result: newResult(t), args: b.values(t.args), vecs: make([]*batch.Vector, len(t.args))}
}

// begin computes the arguments and the rows that are NULL.
func (e *callBase) begin(r *run, sel []int32) {
	for k, a := range e.args {
		e.vecs[k] = a.eval(r, sel)
	}
	e.reset(r.n)
	for k, v := range e.vecs {
		switch {
		case k == 0:
			e.nullsOf(v)
		case v.Valid == nil:
		case e.vec.Valid == nil:
			e.nullsOf(v)
		default:
			own := e.own()
			for w := range own {
				own[w] &= v.Valid[w]
			}
		}
	}
}

// textRow appends the text of row i to dst; fault, if not empty, is a row error.
type textRow func(dst []byte, args []*batch.Vector, i int) (out []byte, fault string)

// textRows builds calls that give text.
func textRows(row textRow) func(b *builder, t *typed) evaluator {
	return func(b *builder, t *typed) evaluator { return &textCall{newCallBase(b, t), row} }
}

type textCall struct {
	callBase
	row textRow
}

func (e *textCall) eval(r *run, sel []int32) *batch.Vector {
	e.begin(r, sel)
	out := &e.vec
	for j, total := 0, count(r.n, sel); j < total; j++ {
		i := int(rowAt(sel, j))
		e.gap(j, sel)
		if !out.IsNull(i) {
			before := len(out.Data)
			data, fault := e.row(out.Data, e.vecs, i)
			if fault == "" && len(data) > maxVectorText {
				fault = textTooLong
			}
			out.Data = data
			if fault != "" {
				out.Data = data[:before]
				e.fail(r, int32(i), fault)
			}
		}
		out.Offsets[i+1] = int32(len(out.Data))
	}
	e.endText(sel)
	return out
}

// fixedRow sets row i of out; fault, if not empty, is a row error.
type fixedRow func(out *batch.Vector, args []*batch.Vector, i int) (fault string)

// fixedRows builds calls that give values of fixed width.
func fixedRows(row fixedRow) func(b *builder, t *typed) evaluator {
	return func(b *builder, t *typed) evaluator { return &fixedCall{newCallBase(b, t), row} }
}

type fixedCall struct {
	callBase
	row fixedRow
}

func (e *fixedCall) eval(r *run, sel []int32) *batch.Vector {
	e.begin(r, sel)
	e.each(sel, func(i int32) {
		if fault := e.row(&e.vec, e.vecs, int(i)); fault != "" {
			e.fail(r, i, fault)
		}
	})
	return &e.vec
}

// testRow is the answer for row i; fault, if not empty, is a row error.
type testRow func(args []*batch.Vector, i int) (yes bool, fault string)

// testRows builds calls that give a bool.
func testRows(row func() testRow) func(b *builder, t *typed) test {
	return func(b *builder, t *typed) test { return &testCall{newCallBase(b, t), row()} }
}

type testCall struct {
	callBase
	row testRow
}

func (e *testCall) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	e.begin(r, sel)
	dst = room(dst, count(r.n, sel))
	k := 0
	for j := range dst {
		i := rowAt(sel, j)
		if e.vec.IsNull(int(i)) {
			continue
		}
		yes, fault := e.row(e.vecs, int(i))
		if fault != "" {
			e.fail(r, i, fault)
			continue
		}
		dst[k] = i
		k += truth(yes)
	}
	return dst[:k], e.vec.Valid
}
