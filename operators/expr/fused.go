package expr

import (
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// multiplyAdd computes x * c + y, where c is a constant, in one pass over the rows; a sum with a product
// is what maps compute most. It takes the slow way, one operation after the other, where something may
// be at fault and where few rows of a batch are selected.
type multiplyAdd struct {
	result
	x, y   evaluator
	yFirst bool // y stands before x in the text
	c      int64
	bits   int // safeBits(c)
	f      float64
	slow   evaluator
	skip   int // so many batches more take the slow way at once
}

// skipAfterFault is for how many batches the fast way is not tried again after it has failed: a column
// with large values has them in most batches.
const skipAfterFault = 16

func (e *multiplyAdd) eval(r *run, sel []int32) *batch.Vector {
	if e.skip > 0 || !dense(r.n, sel) {
		e.skip = max(0, e.skip-1)
		return e.slow.eval(r, sel)
	}
	var x, y *batch.Vector
	if e.yFirst {
		y, x = e.y.eval(r, sel), e.x.eval(r, sel)
	} else {
		x, y = e.x.eval(r, sel), e.y.eval(r, sel)
	}
	out := e.reset(r.n)
	e.nullsOfBoth(x, y)
	bad := false
	if e.typ.Kind == dataflow.Float {
		bad = multiplyAddFloats(out.Floats, x.Floats[:r.n], y.Floats, e.f)
	} else {
		bad = multiplyAddInts(out.Ints, x.Ints[:r.n], y.Ints, e.c, e.bits)
	}
	if bad {
		e.skip = skipAfterFault
		return e.slow.eval(r, sel)
	}
	return out
}

// multiplyAdd builds x * c + y, y + x * c, y - x * c, and x * c - k for a constant k. It gives nil for
// anything else.
func (b *builder) multiplyAdd(t *typed) evaluator {
	if t.op != opAdd && t.op != opSubtract || t.typ.Kind != dataflow.Int && t.typ.Kind != dataflow.Float {
		return nil
	}
	side := 0 // on which the product stands
	if !isProduct(t.args[0], t.typ) {
		side = 1
	}
	product, other := t.args[side], t.args[1-side]
	if !isProduct(product, t.typ) || other.isNull() {
		return nil
	}
	e := &multiplyAdd{result: newResult(t), yFirst: side == 1}
	factor := 1 // the side of the product on which its constant stands
	if product.args[0].isConstant() {
		factor = 0
	}
	c := product.args[factor].val
	addend := other
	if t.op == opSubtract && side == 1 {
		c.i, c.f = -c.i, -c.f
	} else if t.op == opSubtract {
		k := other.val
		if !other.isConstant() || k.i == math.MinInt64 {
			return nil
		}
		k.i, k.f = -k.i, -k.f
		addend = constant(other.span, other.typ, k)
	}
	e.c, e.f, e.bits = c.i, c.f, safeBits(c.i)
	if e.bits < 0 {
		return nil
	}
	args := b.values(product.args)
	e.x = args[1-factor]
	sides := [2]evaluator{}
	sides[side] = newArithmetic(product, args[0], args[1])
	sides[1-side] = b.value(other)
	e.slow = newArithmetic(t, sides[0], sides[1])
	if e.y = sides[1-side]; addend != other {
		e.y = b.value(addend)
	}
	return e
}

// isProduct reports whether t is a product of type typ with a constant.
func isProduct(t *typed, typ dataflow.Type) bool {
	if t.op != opMultiply || t.typ != typ || t.args[0].typ != typ || t.args[1].typ != typ {
		return false
	}
	x, y := t.args[0], t.args[1]
	return x.isConstant() != y.isConstant() && !x.isNull() && !y.isNull()
}
