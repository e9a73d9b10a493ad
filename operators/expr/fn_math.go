package expr

import (
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

func mathFunctions() []*function {
	float := dataflow.FloatType
	unary := func(name, doc, fault string, f func(float64) float64) *function {
		return &function{name: name, signatures: []string{name + "(float) float"}, doc: doc, fails: true,
			check: takes(1, float, float), value: floatRows(f, fault)}
	}
	return []*function{
		{name: "abs", signatures: []string{"abs(int) int", "abs(float) float", "abs(decimal) decimal", "abs(duration) duration"},
			doc: "The value without its sign.", fails: true, check: checkSameNumber, value: fixedRows(absRow)},
		{name: "sign", signatures: []string{"sign(int) int", "sign(float) int", "sign(decimal) int", "sign(duration) int"},
			doc: "-1, 0 or 1 as the value is negative, zero or positive.", check: checkSign, value: fixedRows(signRow)},
		{name: "round", signatures: []string{"round(int[, int]) int", "round(float[, int]) float", "round(decimal[, int]) decimal"},
			doc:   "The value rounded to so many digits behind the point, 0 if that is left out; halves go away from zero. A negative number rounds to tens, hundreds and so on. For a decimal it must be a constant.",
			fails: true, check: checkRound, value: fixedRows(roundRow)},
		{name: "floor", signatures: []string{"floor(int) int", "floor(float) float", "floor(decimal) decimal"},
			doc: "The largest whole number that is not above the value.", fails: true, check: checkWhole, value: fixedRows(floorRow)},
		{name: "ceil", signatures: []string{"ceil(int) int", "ceil(float) float", "ceil(decimal) decimal"},
			doc: "The least whole number that is not below the value.", fails: true, check: checkWhole, value: fixedRows(ceilRow)},
		{name: "power", signatures: []string{"power(float, float) float"},
			doc:   "The first argument to the power of the second. A root of a negative number, zero to a negative power and a result that is too large are row errors.",
			fails: true, check: takes(2, float, float, float), value: fixedRows(powerRow)},
		unary("sqrt", "The square root; of a negative number it is a row error.", "square root of a negative number", math.Sqrt),
		unary("ln", "The natural logarithm; of zero or a negative number it is a row error.", "logarithm of zero or less", math.Log),
		unary("log10", "The logarithm to base 10; of zero or a negative number it is a row error.", "logarithm of zero or less", math.Log10),
		unary("exp", "e to the power of the value.", "float overflow", math.Exp),
	}
}

// floatRows builds functions of one float; a result that is no number although the argument is one is
// the fault.
func floatRows(f func(float64) float64, fault string) func(b *builder, t *typed) evaluator {
	return fixedRows(func(out *batch.Vector, args []*batch.Vector, i int) string {
		x := args[0].Floats[i]
		v := f(x)
		out.Floats[i] = v
		if isUnbounded(v) && !isUnbounded(x) {
			return fault
		}
		return ""
	})
}

// checkSameNumber types functions that give what they take, a number or a duration.
func checkSameNumber(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) != 1 || !isNumber(args[0].typ) && args[0].typ.Kind != dataflow.Duration && args[0].typ.Kind != dataflow.Null {
		return c.badCall(n, f, args)
	}
	if args[0].typ.Kind == dataflow.Null {
		return args[0]
	}
	return f.strictCall(n, args[0].typ, args)
}

func checkSign(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) == 1 && args[0].typ.Kind == dataflow.Null {
		return constant(n.span, dataflow.IntType, args[0].val)
	}
	if len(args) != 1 || !isNumber(args[0].typ) && args[0].typ.Kind != dataflow.Duration {
		return c.badCall(n, f, args)
	}
	return f.strictCall(n, dataflow.IntType, args)
}

// checkWhole types floor and ceil.
func checkWhole(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) != 1 || !isNumber(args[0].typ) && args[0].typ.Kind != dataflow.Null {
		return c.badCall(n, f, args)
	}
	switch t := args[0].typ; t.Kind {
	case dataflow.Float:
		return f.strictCall(n, t, args)
	case dataflow.Decimal:
		return f.strictCall(n, capped(wholeDigits(t)+1, 0), args)
	}
	return args[0]
}

// checkRound types round; the number of digits goes into the call.
func checkRound(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) < 1 || len(args) > 2 || !isNumber(args[0].typ) && args[0].typ.Kind != dataflow.Null {
		return c.badCall(n, f, args)
	}
	x := args[0]
	if x.typ.Kind == dataflow.Null {
		return x
	}
	if len(args) == 1 {
		args = append(args, constant(span{n.end, n.end}, dataflow.IntType, scalar{}))
	}
	if !fits(args[1].typ, dataflow.IntType) {
		return c.badCall(n, f, args)
	}
	args[1] = c.convert(args[1], dataflow.IntType)
	if x.typ.Kind != dataflow.Decimal {
		return f.strictCall(n, x.typ, args)
	}
	digits, ok := constantInt(args[1])
	if !ok {
		return c.errorf(args[1].span, "the number of digits to which a decimal is rounded must be a constant, in %s", c.quote(n))
	}
	if digits >= int64(x.typ.Scale) {
		return x
	}
	return f.strictCall(n, capped(wholeDigits(x.typ)+1, int(max(0, digits))), args)
}

func absRow(out *batch.Vector, args []*batch.Vector, i int) string {
	x := args[0]
	switch out.Type.Kind {
	case dataflow.Float:
		out.Floats[i] = math.Abs(x.Floats[i])
	case dataflow.Decimal:
		if out.Decimals[i] = x.Decimals[i]; decimal.Sign(x.Decimals[i]) < 0 {
			out.Decimals[i] = decimal.Neg(x.Decimals[i])
		}
	default:
		v := x.Ints[i]
		if v == math.MinInt64 {
			return overflowNames[out.Type.Kind]
		}
		out.Ints[i] = max(v, -v)
	}
	return ""
}

func signRow(out *batch.Vector, args []*batch.Vector, i int) string {
	x := args[0]
	sign := 0
	switch x.Type.Kind {
	case dataflow.Float:
		sign = compareFloats(x.Floats[i], 0)
	case dataflow.Decimal:
		sign = decimal.Sign(x.Decimals[i])
	default:
		sign = truth(x.Ints[i] > 0) - truth(x.Ints[i] < 0)
	}
	out.Ints[i] = int64(sign)
	return ""
}

func floorRow(out *batch.Vector, args []*batch.Vector, i int) string {
	if out.Type.Kind == dataflow.Float {
		out.Floats[i] = math.Floor(args[0].Floats[i])
		return ""
	}
	return wholeRow(out, args[0], i, 1)
}

func ceilRow(out *batch.Vector, args []*batch.Vector, i int) string {
	if out.Type.Kind == dataflow.Float {
		out.Floats[i] = math.Ceil(args[0].Floats[i])
		return ""
	}
	return wholeRow(out, args[0], i, -1)
}

// wholeRow rounds a decimal down (side 1) or up (side -1).
func wholeRow(out, x *batch.Vector, i, side int) string {
	whole, ok := decimal.Rescale(x.Decimals[i], x.Type.Scale, 0)
	if ok && compareDecimals(whole, x.Decimals[i], 0, x.Type.Scale) == side {
		whole, ok = decimal.Sub(whole, decimal.FromInt64(int64(side)))
	}
	out.Decimals[i] = whole
	if !ok {
		return overflowNames[dataflow.Decimal]
	}
	return ""
}

func powerRow(out *batch.Vector, args []*batch.Vector, i int) string {
	x, y := args[0].Floats[i], args[1].Floats[i]
	v := math.Pow(x, y)
	out.Floats[i] = v
	switch {
	case !isUnbounded(v) || isUnbounded(x) || isUnbounded(y):
		return ""
	case x == 0:
		return divisionByZero
	case math.IsNaN(v):
		return "root of a negative number"
	}
	return overflowNames[dataflow.Float]
}

func roundRow(out *batch.Vector, args []*batch.Vector, i int) string {
	x, digits := args[0], args[1].Ints[i]
	switch x.Type.Kind {
	case dataflow.Float:
		out.Floats[i] = roundFloat(x.Floats[i], digits)
	case dataflow.Decimal:
		d, ok := roundDecimal(x.Decimals[i], x.Type.Scale, digits)
		out.Decimals[i] = d
		if !ok {
			return overflowNames[dataflow.Decimal]
		}
	default:
		out.Ints[i] = x.Ints[i]
		if digits >= 0 {
			return ""
		}
		d, ok := roundDecimal(decimal.FromInt64(x.Ints[i]), 0, digits)
		v, whole := decimal.Int64(d)
		out.Ints[i] = v
		if !ok || !whole {
			return overflowNames[dataflow.Int]
		}
	}
	return ""
}

// roundFloat rounds to digits behind the point. A float of which no such digit counts stays as it is.
func roundFloat(x float64, digits int64) float64 {
	switch {
	case digits == 0:
		return math.Round(x)
	case digits > 308 || isUnbounded(x):
		return x
	case digits < -308:
		return 0
	case digits < 0:
		p := math.Pow10(int(-digits))
		if v := math.Round(x/p) * p; !isUnbounded(v) {
			return v
		}
		return x
	}
	p := math.Pow10(int(digits))
	if v := math.Round(x * p); math.Abs(v) < 1<<52 {
		return v / p
	}
	return x
}

// roundDecimal rounds a decimal of the given scale, which is above digits. The result has the scale
// max(digits, 0).
func roundDecimal(d decimal.Num, scale uint8, digits int64) (decimal.Num, bool) {
	if digits >= 0 {
		return decimal.Rescale(d, scale, uint8(digits))
	}
	if digits < -int64(dataflow.MaxPrecision-scale) {
		return decimal.Num{}, true
	}
	tens := uint8(-digits)
	whole, ok := decimal.Rescale(d, scale+tens, 0)
	if !ok {
		return whole, false
	}
	return decimal.Rescale(whole, 0, tens)
}
