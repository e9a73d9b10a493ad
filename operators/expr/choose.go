package expr

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// choice puts together a vector whose rows come from several others. Values of fixed width are copied as
// they are taken; text can only be appended in the order of the rows, so it is noted where each row's
// comes from, and copied at the end.
type choice struct {
	result
	nullable bool     // else there is no need to know which rows are NULL
	from     []uint16 // index in vecs, per row; noChoice where the row is NULL
	vecs     []*batch.Vector
}

// noChoice stands for NULL; maxNodes is far below it.
const noChoice = 1<<16 - 1

func newChoice(t *typed) choice { return choice{result: newResult(t), nullable: t.nullable} }

// start begins a choice for n rows among k vectors; all rows are NULL, if they can be.
func (c *choice) start(n, k int) {
	c.reset(n)
	if isText(c.typ) {
		c.startFrom(n, k)
		return
	}
	if c.nullable {
		c.own().Fill(n, false)
	}
}

func (c *choice) startFrom(n, k int) {
	if cap(c.from) < n {
		c.from = make([]uint16, n, n+n/4)
	}
	c.from = c.from[:n]
	fill(c.from, noChoice)
	if c.vecs == nil {
		c.vecs = make([]*batch.Vector, k)
	}
	clear(c.vecs)
}

// take takes the rows from v, which is vector k.
func (c *choice) take(k int, v *batch.Vector, rows []int32) {
	if isText(c.typ) {
		c.vecs[k] = v
		for _, i := range rows {
			c.from[i] = uint16(k)
		}
		return
	}
	copyRows(&c.vec, v, rows)
	if !c.nullable {
		return
	}
	for _, i := range rows {
		w, s := uint(i)/64, uint(i)%64
		bit := uint64(1)
		if v.Valid != nil {
			bit = v.Valid[w] >> s & 1
		}
		c.valid[w] |= bit << s
	}
}

// finish completes the rows in sel.
func (c *choice) finish(n int, sel []int32) *batch.Vector {
	if isText(c.typ) {
		return c.finishFrom(n, sel)
	}
	return &c.vec
}

// finishFrom copies the rows in sel from where they come.
func (c *choice) finishFrom(n int, sel []int32) *batch.Vector {
	out := &c.vec
	text := isText(c.typ)
	for j, total := 0, count(n, sel); j < total; j++ {
		i := int(rowAt(sel, j))
		k := c.from[i]
		isNull := k == noChoice || c.vecs[k].IsNull(i)
		if isNull {
			c.null(int32(i))
		}
		if text {
			c.gap(j, sel)
			if !isNull {
				out.Data = append(out.Data, c.vecs[k].Bytes(i)...)
			}
			out.Offsets[i+1] = int32(len(out.Data))
		} else if !isNull {
			copyValue(out, c.vecs[k], i)
		}
	}
	if text {
		c.endText(sel)
	}
	return out
}

// copyRows copies values of fixed width.
func copyRows(dst, src *batch.Vector, rows []int32) {
	switch dst.Type.Kind {
	case dataflow.Bool:
		for _, i := range rows {
			dst.Bits.SetTo(int(i), src.Bits.Get(int(i)))
		}
	case dataflow.Float:
		copySelected(dst.Floats, src.Floats, rows)
	case dataflow.Decimal:
		copySelected(dst.Decimals, src.Decimals, rows)
	default:
		copySelected(dst.Ints, src.Ints, rows)
	}
}

func copySelected[T any](dst, src []T, rows []int32) {
	for _, i := range rows {
		dst[i] = src[i]
	}
}

func copyValue(dst, src *batch.Vector, i int) {
	switch dst.Type.Kind {
	case dataflow.Bool:
		dst.Bits.SetTo(i, src.Bits.Get(i))
	case dataflow.Float:
		dst.Floats[i] = src.Floats[i]
	case dataflow.Decimal:
		dst.Decimals[i] = src.Decimals[i]
	default:
		dst.Ints[i] = src.Ints[i]
	}
}

// gap gives the rows between element j of sel and the one before it the empty text.
func (o *result) gap(j int, sel []int32) {
	if sel == nil {
		return
	}
	from := 0
	if j > 0 {
		from = int(sel[j-1]) + 1
	}
	for i := from; i < int(sel[j]); i++ {
		o.vec.Offsets[i+1] = int32(len(o.vec.Data))
	}
}

// endText gives the rows behind the last one of sel the empty text.
func (o *result) endText(sel []int32) {
	if sel == nil {
		return
	}
	from := 0
	if len(sel) > 0 {
		from = int(sel[len(sel)-1]) + 1
	}
	for i := from; i < o.vec.Len; i++ {
		o.vec.Offsets[i+1] = int32(len(o.vec.Data))
	}
}

// caseValue builds CASE.
func (b *builder) caseValue(t *typed) evaluator {
	e := &caseValue{choice: newChoice(t)}
	k := len(t.args) / 2
	for i := range k {
		e.conds = append(e.conds, b.selector(t.args[2*i], true))
		e.results = append(e.results, b.value(t.args[2*i+1]))
	}
	e.results = append(e.results, b.value(t.args[2*k]))
	return e
}

// caseValue asks each condition about the rows that the ones before it have left.
type caseValue struct {
	choice
	conds      []selector
	results    []evaluator // the last one is that of ELSE
	rest, rows []int32
	chosen     rowSet
}

func (e *caseValue) eval(r *run, sel []int32) *batch.Vector {
	e.start(r.n, len(e.results))
	rest := sel // nil for all rows as long as that is so: kernels are faster then
	for k, cond := range e.conds {
		e.rows = cond.rows(r, rest, e.rows)
		if len(e.rows) > 0 {
			e.take(k, e.results[k].eval(r, e.rows), e.rows)
		}
		e.chosen.set(r.n, e.rows)
		e.rest = e.chosen.others(r.n, rest, e.rest)
		if rest = e.rest; len(rest) == 0 {
			return e.finish(r.n, sel)
		}
	}
	k := len(e.conds)
	e.take(k, e.results[k].eval(r, rest), rest)
	return e.finish(r.n, sel)
}

// coalesce takes the first of its arguments that is not NULL.
type coalesce struct {
	choice
	args []evaluator
	rest []int32
}

func (e *coalesce) eval(r *run, sel []int32) *batch.Vector {
	e.start(r.n, len(e.args))
	e.rest = all(r.n, sel, e.rest)
	for k, arg := range e.args {
		v := arg.eval(r, e.rest)
		e.take(k, v, e.rest) // those that are NULL are taken again from the next one
		if v.Valid == nil {
			break
		}
		if e.rest = rowsOf(v.Valid, nil, r.n, false, e.rest, e.rest); len(e.rest) == 0 {
			break
		}
	}
	return e.finish(r.n, sel)
}

// extreme is greatest or least: of the arguments that are not NULL.
type extreme struct {
	choice
	args []evaluator
	how  pairing
	sign int // 1: greatest; -1: least
}

func (e *extreme) eval(r *run, sel []int32) *batch.Vector {
	e.reset(r.n)
	e.startFrom(r.n, len(e.args))
	for k, arg := range e.args {
		v := arg.eval(r, sel)
		e.vecs[k] = v
		each(r.n, sel, v.Valid, func(i int32) {
			if best := e.from[i]; best == noChoice || e.how.order(v, e.vecs[best], int(i)) == e.sign {
				e.from[i] = uint16(k)
			}
		})
	}
	return e.finishFrom(r.n, sel)
}
