package expr

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// evaluator computes an expression for the rows that sel lists in rising order; nil lists all r.n. The
// vector has the length r.n; rows that are not in sel are undefined, as a batch.Vector allows it. It
// stays valid until the next run.
type evaluator interface {
	eval(r *run, sel []int32) *batch.Vector
}

// selector finds the rows, of those in sel, for which a condition is TRUE, in rising order. The result
// is never nil; it stands in dst if that is large enough, and dst may share its start with sel.
type selector interface {
	rows(r *run, sel, dst []int32) []int32
}

// test is a selector that takes no notice of NULL: valid tells for which rows it had an answer, and
// where a bit is clear the row may be among the rows or not.
type test interface {
	test(r *run, sel, dst []int32) (rows []int32, valid batch.Bitmap)
}

// builder turns checked expressions into evaluators.
type builder struct {
	shared map[*typed]*sharedValue
}

func newBuilder() *builder { return &builder{shared: map[*typed]*sharedValue{}} }

// value builds the evaluator of t.
func (b *builder) value(t *typed) evaluator {
	switch t.op {
	case opColumn:
		return columnValue(t.index)
	case opConstant:
		return &constantValue{typ: t.typ, val: t.val}
	case opShared:
		s := b.shared[t]
		if s == nil {
			s = &sharedValue{x: b.value(t.args[0])}
			b.shared[t] = s
		}
		return s
	case opAdd, opSubtract, opMultiply, opDivide, opRemainder:
		return b.arithmetic(t)
	case opNegate:
		return b.negation(t)
	case opAnd, opOr:
		return &logicValue{or: t.op == opOr, eager: !t.args[1].fails, x: b.value(t.args[0]), y: b.value(t.args[1])}
	case opNot:
		return &notValue{x: b.value(t.args[0])}
	case opIsNull:
		return &isNullValue{x: b.value(t.args[0]), not: t.not}
	case opCase:
		return b.caseValue(t)
	case opCast:
		return b.cast(t)
	case opConcat:
		return textRows(concatRow)(b, t)
	case opCall:
		if t.fn.value != nil {
			return t.fn.value(b, t)
		}
	}
	return &testValue{test: b.test(t), typ: t.typ}
}

// test builds an operation whose result is a bool by way of the rows for which it is true.
func (b *builder) test(t *typed) test {
	switch t.op {
	case opCompare:
		return b.compare(t)
	case opDistinct:
		return b.distinct(t)
	case opIn:
		return b.in(t)
	case opLike:
		return b.like(t)
	}
	return t.fn.test(b, t)
}

// selector builds the selector of the rows for which t is want.
func (b *builder) selector(t *typed, want bool) selector {
	switch t.op {
	case opConstant:
		return constantSelector(!t.val.null && (t.val.i != 0) == want)
	case opNot:
		return b.selector(t.args[0], !want)
	case opAnd, opOr:
		x, y := b.selector(t.args[0], want), b.selector(t.args[1], want)
		if (t.op == opAnd) != want {
			return &orSelector{x: x, y: y}
		}
		if both := intersect(x, y); both != nil {
			return both
		}
		return &andSelector{x, y}
	case opIsNull:
		return &isNullSelector{b.value(t.args[0]), t.not == want}
	case opCompare, opDistinct, opIn, opLike:
		if !want {
			t = negate(t.span, t)
		}
		return &testSelector{b.test(t)}
	case opCall:
		if want && t.fn.test != nil {
			return &testSelector{b.test(t)}
		}
	}
	return &boolSelector{b.value(t), want}
}

// values builds the evaluators of several expressions.
func (b *builder) values(ts []*typed) []evaluator {
	es := make([]evaluator, len(ts))
	for i, t := range ts {
		es[i] = b.value(t)
	}
	return es
}

type columnValue int

func (c columnValue) eval(r *run, _ []int32) *batch.Vector { return &r.b.Cols[c] }

// sharedValue computes x once a run. Its first use is over the most rows.
type sharedValue struct {
	x   evaluator
	seq uint64
	vec *batch.Vector
}

func (s *sharedValue) eval(r *run, sel []int32) *batch.Vector {
	if s.seq != r.seq {
		s.vec, s.seq = s.x.eval(r, sel), r.seq
	}
	return s.vec
}

// constantValue repeats one value as often as needed.
type constantValue struct {
	typ  dataflow.Type
	val  scalar
	vec  batch.Vector
	have int
}

func (c *constantValue) eval(r *run, _ []int32) *batch.Vector {
	if c.have < r.n {
		c.fill(r.n + r.n/4)
	}
	c.vec.Len = r.n
	return &c.vec
}

// fill makes n copies of the value.
func (c *constantValue) fill(n int) {
	v := &c.vec
	v.Reset(c.typ, n)
	if c.val.null {
		v.Valid = make(batch.Bitmap, batch.Words(n))
	}
	switch c.typ.Kind {
	case dataflow.Bool:
		v.Bits.Fill(n, c.val.i != 0)
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		fill(v.Ints, c.val.i)
	case dataflow.Float:
		fill(v.Floats, c.val.f)
	case dataflow.Decimal:
		fill(v.Decimals, c.val.d)
	case dataflow.String, dataflow.Bytes:
		for i := range n {
			v.Data = append(v.Data, c.val.s...)
			v.Offsets[i+1] = int32(len(v.Data))
		}
	}
	c.have = n
}

func fill[T any](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}
