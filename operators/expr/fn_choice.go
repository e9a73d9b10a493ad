package expr

import (
	"encoding/binary"
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// choiceFunctions are those that take values of any type.
func choiceFunctions() []*function {
	extremeOf := func(name, doc string, sign int) *function {
		return &function{name: name, signatures: []string{name + "(any, ...) any"}, doc: doc,
			check: checkExtreme, value: func(b *builder, t *typed) evaluator {
				return &extreme{choice: newChoice(t), args: b.values(t.args), how: newPairing(equal, t.typ, t.typ), sign: sign}
			}}
	}
	return []*function{
		{name: "coalesce", signatures: []string{"coalesce(any, ...) any"},
			doc:   "The first argument that is not NULL, or NULL. An argument is only computed for the rows that need it.",
			check: checkCoalesce, value: func(b *builder, t *typed) evaluator {
				return &coalesce{choice: newChoice(t), args: b.values(t.args)}
			}},
		{name: "nullif", signatures: []string{"nullif(any, any) any"},
			doc: "NULL where both arguments are equal, else the first one: CASE WHEN a = b THEN NULL ELSE a END.", check: checkNullIf},
		extremeOf("greatest", "The greatest of the arguments that are not NULL; NULL if all are.", 1),
		extremeOf("least", "The least of the arguments that are not NULL; NULL if all are.", -1),
		{name: "hash", signatures: []string{"hash(any, ...) int"},
			doc:   "A hash of all arguments that is the same on every machine and in every release; NULL is hashed like a value, and the result is never NULL.",
			check: checkHash, value: func(b *builder, t *typed) evaluator { return &hashValue{args: b.values(t.args)} }},
	}
}

// unified converts the arguments to one type.
func (c *checker) unified(n *call, f *function, args []*typed) (dataflow.Type, bool) {
	if len(args) == 0 {
		c.badCall(n, f, args)
		return dataflow.Type{}, false
	}
	return c.unify(n.span, n.name, args)
}

func checkCoalesce(c *checker, n *call, f *function, args []*typed) *typed {
	t, ok := c.unified(n, f, args)
	switch {
	case !ok:
		return &typed{span: n.span}
	case t.Kind == dataflow.Null:
		return args[0]
	}
	r := &typed{span: n.span, op: opCall, fn: f, typ: t, args: args, nullable: true}
	for _, a := range args {
		r.nullable = r.nullable && a.nullable
	}
	return settle(r)
}

// checkExtreme is checkCoalesce: both are NULL only if all of the arguments are.
func checkExtreme(c *checker, n *call, f *function, args []*typed) *typed {
	return checkCoalesce(c, n, f, args)
}

func checkNullIf(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) != 2 {
		return c.badCall(n, f, args)
	}
	x := shared(args[0])
	same := c.compare(n.span, equal, x, args[1])
	if same.invalid() {
		return &typed{span: n.span}
	}
	if x.typ.Kind == dataflow.Null {
		return x
	}
	null := constant(n.span, x.typ, scalar{null: true})
	return settle(&typed{span: n.span, op: opCase, typ: x.typ, nullable: true, args: []*typed{same, null, x}})
}

func checkHash(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) == 0 {
		return c.badCall(n, f, args)
	}
	return settle(&typed{span: n.span, op: opCall, fn: f, typ: dataflow.IntType, args: args})
}

// hashValue hashes its arguments, see doc.go for what exactly is hashed.
type hashValue struct {
	args   []evaluator
	vecs   []*batch.Vector
	vec    batch.Vector
	hasher KeyHasher
}

func (e *hashValue) eval(r *run, sel []int32) *batch.Vector {
	e.vecs = e.vecs[:0]
	for _, a := range e.args {
		e.vecs = append(e.vecs, a.eval(r, sel))
	}
	e.vec.Reset(dataflow.IntType, r.n)
	e.hasher.HashRows(e.vecs, sel, e.vec.Ints)
	return &e.vec
}

// appendHashed writes row i in the form that is hashed: a byte for the kind, 0 for NULL, and the value.
func appendHashed(dst []byte, v *batch.Vector, i int) []byte {
	if v.IsNull(i) || v.Type.Kind == dataflow.Null {
		return append(dst, 0)
	}
	dst = append(dst, byte(v.Type.Kind))
	switch v.Type.Kind {
	case dataflow.Bool:
		return append(dst, byte(truth(v.Bits.Get(i))))
	case dataflow.Float:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(normalFloat(v.Floats[i])))
	case dataflow.Decimal:
		d, scale := normalDecimal(v.Decimals[i], v.Type.Scale)
		dst = binary.LittleEndian.AppendUint64(append(dst, scale), d.Lo)
		return binary.LittleEndian.AppendUint64(dst, uint64(d.Hi))
	case dataflow.String, dataflow.Bytes:
		s := v.Bytes(i)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)))
		return append(dst, s...)
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(v.Ints[i]))
}

// normalFloat gives floats that are equal the same bits.
func normalFloat(f float64) float64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return math.NaN()
	}
	return f
}

// normalDecimal gives decimals that are equal the same form: without zeros at the end.
func normalDecimal(d decimal.Num, scale uint8) (decimal.Num, uint8) {
	for scale > 0 {
		shorter, ok := decimal.Rescale(d, scale, scale-1)
		if !ok {
			break
		}
		if back, ok := decimal.Rescale(shorter, scale-1, scale); !ok || back != d {
			break
		}
		d, scale = shorter, scale-1
	}
	return d, scale
}
