package expr

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// scalar is one value: a literal or a folded constant. Its kind tells which field counts.
type scalar struct {
	null bool
	i    int64 // Int, Timestamp, Duration; Bool: 0 or 1
	f    float64
	d    decimal.Num
	s    string // String, Bytes
}

type op uint8

const (
	opInvalid  op = iota
	opColumn      // typed.index
	opConstant    // typed.val
	opAdd
	opSubtract
	opMultiply
	opDivide
	opRemainder
	opNegate
	opConcat
	opCompare  // typed.cmp
	opDistinct // IS DISTINCT FROM; typed.not: IS NOT DISTINCT FROM
	opAnd
	opOr
	opNot
	opIsNull // typed.not: IS NOT NULL
	opIn     // args[0] in args[1:]; typed.not
	opLike   // args: text, pattern; typed.not
	opCase   // args: condition, result, condition, result, ..., other
	opCast
	opShared // one part that is used several times; computed once for a batch
	opCall   // typed.fn
)

// typed is an expression whose names and types are known. Args have exactly the types that the kernel
// of the operation takes: conversions are operations of their own.
type typed struct {
	span
	text     string // the whole text, of which span is a part; for messages
	op       op
	typ      dataflow.Type
	nullable bool
	fails    bool // it, or a part of it, may cause a row error
	volatile bool // it, or a part of it, is not the same for every row and batch even without columns
	args     []*typed

	index   int
	val     scalar
	cmp     comparison
	not     bool
	fn      *function
	pattern *likePattern // opLike with a constant pattern, which is then no arg
	escape  rune         // opLike; -1: none
	unit    timeUnit     // of extract and date_trunc
}

// attach gives t and its parts the text that their spans are of, as far as they have none yet.
func (t *typed) attach(text string) {
	if t.text != "" {
		return // so are its parts, which may be reached by several ways
	}
	t.text = text
	for _, a := range t.args {
		a.attach(text)
	}
}

func (t *typed) invalid() bool    { return t.typ.Kind == dataflow.Invalid }
func (t *typed) isNull() bool     { return t.op == opConstant && t.val.null }
func (t *typed) isConstant() bool { return t.op == opConstant }

// comparison is an operator of two comparable values.
type comparison uint8

const (
	equal comparison = iota
	notEqual
	less
	lessEqual
	greater
	greaterEqual
)

var comparisons = map[string]comparison{
	"=": equal, "<>": notEqual, "<": less, "<=": lessEqual, ">": greater, ">=": greaterEqual,
}

// swapped is the operator that gives the same with the operands exchanged.
func (c comparison) swapped() comparison {
	return [...]comparison{equal, notEqual, greater, greaterEqual, less, lessEqual}[c]
}

// negated is the operator that is true where c is false.
func (c comparison) negated() comparison {
	return [...]comparison{notEqual, equal, greaterEqual, greater, lessEqual, less}[c]
}

// constant makes a constant in the place of a part of the text.
func constant(s span, t dataflow.Type, v scalar) *typed {
	return &typed{span: s, op: opConstant, typ: t, val: v, nullable: v.null}
}

// strict makes an operation that is NULL where one of its arguments is.
func strict(s span, o op, t dataflow.Type, args ...*typed) *typed {
	n := &typed{span: s, op: o, typ: t, args: args}
	for _, a := range args {
		n.nullable = n.nullable || a.nullable
	}
	return n
}

// settle ends the construction of an operation: it takes over what its arguments bring with them,
// and computes it if they are all constants. A constant that causes a row error is left as it is, since
// it may stand where it is never reached.
func settle(t *typed) *typed {
	constants := true
	for _, a := range t.args {
		if a.invalid() {
			return &typed{span: t.span}
		}
		t.fails = t.fails || a.fails
		t.volatile = t.volatile || a.volatile
		constants = constants && a.isConstant()
	}
	if !constants || t.volatile || t.op == opShared || t.typ.Kind == dataflow.Null {
		return t
	}
	v, ok := fold(t)
	if !ok {
		return t
	}
	return constant(t.span, t.typ, v)
}

// fold computes an operation on constants; ok is false if that is a row error.
func fold(t *typed) (v scalar, ok bool) {
	var ctx Context
	r := run{ctx: &ctx, b: &batch.Batch{Len: 1}, n: 1, seq: 1}
	v = scalarAt(newBuilder().value(t).eval(&r, nil), 0)
	return v, len(ctx.errs) == 0
}

// scalarAt reads row i of a vector.
func scalarAt(v *batch.Vector, i int) scalar {
	if v.IsNull(i) {
		return scalar{null: true}
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		return scalar{i: int64(truth(v.Bits.Get(i)))}
	case dataflow.Float:
		return scalar{f: v.Floats[i]}
	case dataflow.Decimal:
		return scalar{d: v.Decimals[i]}
	case dataflow.String, dataflow.Bytes:
		return scalar{s: string(v.Bytes(i))}
	}
	return scalar{i: v.Ints[i]}
}
