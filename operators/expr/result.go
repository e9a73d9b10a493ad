package expr

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// truth is 1 for true; the compiler makes it an instruction without a branch.
func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// result is the vector that an evaluator fills, with the memory of its validity. It knows the
// expression it is the result of, for row errors.
type result struct {
	vec    batch.Vector
	typ    dataflow.Type
	valid  batch.Bitmap
	source *typed
	quoted string // source's text, once it is needed
	owned  bool   // vec.Valid is valid, not that of an argument
}

func newResult(t *typed) result { return result{typ: t.typ, source: t} }

// reset starts a result for n rows that has no NULL.
func (o *result) reset(n int) *batch.Vector {
	o.vec.Reset(o.typ, n)
	o.owned = false
	return &o.vec
}

// nullsOf makes the rows NULL in which x is.
func (o *result) nullsOf(x *batch.Vector) { o.vec.Valid = x.Valid }

// nullsOfBoth makes the rows NULL in which x or y is.
func (o *result) nullsOfBoth(x, y *batch.Vector) {
	o.vec.Valid, o.valid = joint(o.valid, o.vec.Len, x.Valid, y.Valid)
	o.owned = x.Valid != nil && y.Valid != nil
}

// joint is the AND of two validity bitmaps; mem is memory to use for it, which is returned too.
func joint(mem batch.Bitmap, n int, x, y batch.Bitmap) (both, memory batch.Bitmap) {
	if x == nil {
		return y, mem
	}
	if y == nil {
		return x, mem
	}
	mem = batch.GrowBitmap(mem, n)
	y = y[:len(mem)]
	for i, w := range x[:len(mem)] {
		mem[i] = w & y[i]
	}
	return mem, mem
}

// own makes the validity of o changeable.
func (o *result) own() batch.Bitmap {
	if o.owned {
		return o.vec.Valid
	}
	n := o.vec.Len
	o.valid = batch.GrowBitmap(o.valid, n)
	if o.vec.Valid == nil {
		o.valid.Fill(n, true)
	} else {
		copy(o.valid, o.vec.Valid[:batch.Words(n)])
	}
	o.vec.Valid, o.owned = o.valid, true
	return o.valid
}

// fail gives a row an error, which reads `what in "expression"`, and makes it NULL.
func (o *result) fail(r *run, row int32, what string) {
	if o.quoted == "" {
		o.quoted = quote(o.source.text, o.source.span)
	}
	r.ctx.fail(row, what+" in "+o.quoted)
	o.own().Clear(int(row))
}

// null makes a row NULL.
func (o *result) null(row int32) { o.own().Clear(int(row)) }

// each calls f for the rows of sel that are not NULL. It is for what is rare or costs more than a call.
func (o *result) each(sel []int32, f func(i int32)) {
	each(o.vec.Len, sel, o.vec.Valid, f)
}

// each calls f for the rows of sel (nil: all n) that are valid.
func each(n int, sel []int32, valid batch.Bitmap, f func(i int32)) {
	if sel == nil {
		for i := range int32(n) {
			if valid == nil || valid.Get(int(i)) {
				f(i)
			}
		}
		return
	}
	for _, i := range sel {
		if valid == nil || valid.Get(int(i)) {
			f(i)
		}
	}
}

// dense tells whether a cheap kernel that cannot go wrong had better compute all rows than look up
// those in sel.
func dense(n int, sel []int32) bool { return sel == nil || len(sel) > n/2 }

// room returns dst with the length n; it is never nil.
func room(dst []int32, n int) []int32 {
	if dst == nil || cap(dst) < n {
		return make([]int32, n, n+n/4+1)
	}
	return dst[:n]
}

// count is how many rows sel lists.
func count(n int, sel []int32) int {
	if sel == nil {
		return n
	}
	return len(sel)
}

// all lists the rows of sel in dst.
func all(n int, sel, dst []int32) []int32 {
	dst = room(dst, count(n, sel))
	if sel != nil {
		copy(dst, sel)
		return dst
	}
	for i := range dst {
		dst[i] = int32(i)
	}
	return dst
}

// keepSet drops the rows whose bit is not set; a nil bitmap drops none.
func keepSet(rows []int32, bits batch.Bitmap) []int32 {
	if bits == nil {
		return rows
	}
	k := 0
	for _, i := range rows {
		rows[k] = i
		k += int(bits[uint(i)/64] >> (uint(i) % 64) & 1)
	}
	return rows[:k]
}
