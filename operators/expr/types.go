package expr

import (
	"sluice/dataflow"
	"sluice/dataflow/decimal"
	"sluice/operators/value"
)

func isNumber(t dataflow.Type) bool {
	return t.Kind == dataflow.Int || t.Kind == dataflow.Float || t.Kind == dataflow.Decimal
}

func isText(t dataflow.Type) bool { return t.Kind == dataflow.String || t.Kind == dataflow.Bytes }

// intDecimal is the decimal type that holds every int.
var intDecimal = dataflow.DecimalType(19, 0)

// asDecimal is the decimal type in which an int or a decimal takes part in decimal arithmetic.
func asDecimal(t dataflow.Type) dataflow.Type {
	if t.Kind == dataflow.Int {
		return intDecimal
	}
	return t
}

// capped is decimal(whole + scale, scale), with fewer digits before the point if that is too many.
func capped(whole, scale int) dataflow.Type {
	return dataflow.DecimalType(uint8(max(1, min(dataflow.MaxPrecision, whole+scale))), uint8(scale))
}

func wholeDigits(t dataflow.Type) int { return int(t.Precision) - int(t.Scale) }

// common is the type that values of both types take to stand in one column or be compared; ok is
// false if there is none.
func common(a, b dataflow.Type) (t dataflow.Type, ok bool) {
	switch {
	case a == b || b.Kind == dataflow.Null:
		return a, true
	case a.Kind == dataflow.Null:
		return b, true
	case !isNumber(a) || !isNumber(b):
		return a, false
	case a.Kind == dataflow.Float || b.Kind == dataflow.Float:
		return dataflow.FloatType, true
	}
	a, b = asDecimal(a), asDecimal(b)
	return capped(max(wholeDigits(a), wholeDigits(b)), int(max(a.Scale, b.Scale))), true
}

// decimalResult is the type of an operation on decimals; ok is false if it would have more digits
// behind the point than a decimal can have.
func decimalResult(o op, a, b dataflow.Type) (t dataflow.Type, ok bool) {
	scale := int(max(a.Scale, b.Scale))
	switch o {
	case opAdd, opSubtract:
		return capped(max(wholeDigits(a), wholeDigits(b))+1, scale), true
	case opMultiply:
		scale = int(a.Scale) + int(b.Scale)
		if scale > dataflow.MaxPrecision {
			return t, false
		}
		return capped(wholeDigits(a)+wholeDigits(b), scale), true
	case opDivide:
		return capped(wholeDigits(a)+int(b.Scale), max(scale, 6)), true
	}
	return capped(max(wholeDigits(a), wholeDigits(b)), scale), true
}

// literalAs reads a text literal as a timestamp or duration beside which it stands.
func literalAs(text string, t dataflow.Type) (scalar, bool) {
	var us int64
	var err error
	if t.Kind == dataflow.Timestamp {
		us, err = value.ParseTimestamp([]byte(text))
	} else {
		us, err = value.ParseDuration([]byte(text))
	}
	return scalar{i: us}, err == nil
}

// wholeOf returns a constant decimal as an int, if it is one.
func wholeOf(d decimal.Num, scale uint8) (int64, bool) {
	whole, ok := decimal.Rescale(d, scale, 0)
	if !ok {
		return 0, false
	}
	back, ok := decimal.Rescale(whole, 0, scale)
	if !ok || back != d {
		return 0, false
	}
	return decimal.Int64(whole)
}
