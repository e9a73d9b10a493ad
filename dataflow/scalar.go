package dataflow

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// ColumnTypeNames are the names of the column types, as a spec writes them.
var ColumnTypeNames = []string{"bool", "int", "float", "decimal", "string", "bytes", "timestamp", "duration"}

// DefaultDecimal is the type that plain "decimal" stands for.
var DefaultDecimal = DecimalType(MaxPrecision, 9)

// ParseType reads a column type: one of ColumnTypeNames, or "decimal(p,s)" or "decimal(p)", which is
// decimal(p,0). Names are case-sensitive; spaces may stand around p and s.
func ParseType(text string) (Type, error) {
	for i, name := range ColumnTypeNames {
		if text == name {
			t := Type{Kind: Bool + Kind(i)}
			if t.Kind == Decimal {
				t = DefaultDecimal
			}
			return t, nil
		}
	}
	args, ok := strings.CutPrefix(text, "decimal(")
	if !ok {
		return Type{}, fmt.Errorf("unknown type %q", text)
	}
	args, ok = strings.CutSuffix(args, ")")
	if !ok {
		return Type{}, fmt.Errorf("type %q has no closing parenthesis", text)
	}
	precision, scale, hasScale := strings.Cut(args, ",")
	p, err := strconv.ParseUint(strings.TrimSpace(precision), 10, 8)
	if err != nil || p < 1 || p > MaxPrecision {
		return Type{}, fmt.Errorf("type %q: the precision of a decimal is 1 to %d", text, MaxPrecision)
	}
	var s uint64
	if hasScale {
		s, err = strconv.ParseUint(strings.TrimSpace(scale), 10, 8)
		if err != nil || s > p {
			return Type{}, fmt.Errorf("type %q: the scale of a decimal is 0 to its precision, here %d", text, p)
		}
	}
	return DecimalType(uint8(p), uint8(s)), nil
}

// durationUnits are the units of a duration, in microseconds, longest name first where one begins
// another.
var durationUnits = []struct {
	name   string
	micros int64
}{
	{"ms", 1_000}, {"us", 1}, {"µs", 1}, {"s", 1_000_000}, {"m", 60_000_000}, {"h", 3_600_000_000}, {"d", 86_400_000_000},
}

// ParseDuration reads a duration such as 250ms, 10s, 5m, 1h, 2d, 1h30m or 1.5s and returns it in
// microseconds. It is a sequence of decimal numbers, each with one of the units us, ms, s, m, h and d
// (24 hours), with an optional minus sign before all. Finer parts than a microsecond are an error.
func ParseDuration(text string) (micros int64, err error) {
	rest, negative := strings.CutPrefix(text, "-")
	if rest == "" {
		return 0, fmt.Errorf("%q is not a duration such as 250ms, 10s or 5m", text)
	}
	total := new(big.Int)
	for rest != "" {
		n := 0
		for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '.') {
			n++
		}
		if n == 0 || n > 30 {
			return 0, fmt.Errorf("%q is not a duration such as 250ms, 10s or 5m", text)
		}
		number := rest[:n]
		unit := int64(0)
		rest = rest[n:]
		for _, u := range durationUnits {
			if after, ok := strings.CutPrefix(rest, u.name); ok {
				unit, rest = u.micros, after
				break
			}
		}
		if unit == 0 {
			return 0, fmt.Errorf("%q is not a duration: %s needs a unit: ms, s, m, h or d", text, number)
		}
		r, ok := new(big.Rat).SetString(number)
		if !ok {
			return 0, fmt.Errorf("%q is not a duration: %s is not a number", text, number)
		}
		if r.Mul(r, new(big.Rat).SetInt64(unit)); !r.IsInt() {
			return 0, fmt.Errorf("duration %q is finer than a microsecond", text)
		}
		total.Add(total, r.Num())
	}
	if negative {
		total.Neg(total)
	}
	if !total.IsInt64() {
		return 0, fmt.Errorf("duration %q is too long", text)
	}
	return total.Int64(), nil
}

// check tells what is wrong with value as a value of the parameter by itself, or "" if nothing is,
// and what was probably meant.
func (d *ParamDesc) check(value string) (message, suggestion string) {
	switch d.Type {
	case PathParam:
		if value == "" {
			return d.Name + " is empty", ""
		}
	case EnumParam:
		for _, v := range d.Values {
			if v == value {
				return "", ""
			}
		}
		return fmt.Sprintf("%s is %s, not one of %s", d.Name, quote(value), strings.Join(d.Values, ", ")), Nearest(value, d.Values)
	case BoolParam:
		if value != "true" && value != "false" {
			return fmt.Sprintf("%s is %s, not true or false", d.Name, quote(value)), Nearest(value, []string{"true", "false"})
		}
	case IntParam:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Sprintf("%s is %s, not an int", d.Name, quote(value)), ""
		}
		if float64(n) < d.Min {
			return fmt.Sprintf("%s is %d; the least is %s", d.Name, n, number(d.Min)), ""
		}
	case FloatParam:
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			return fmt.Sprintf("%s is %s, not a number", d.Name, quote(value)), ""
		}
		if x < d.Min {
			return fmt.Sprintf("%s is %s; the least is %s", d.Name, value, number(d.Min)), ""
		}
	case DurationParam:
		micros, err := ParseDuration(value)
		if err != nil {
			return fmt.Sprintf("%s: %v", d.Name, err), ""
		}
		if micros < 0 {
			return fmt.Sprintf("%s is %s; it may not be negative", d.Name, value), ""
		}
	}
	return "", ""
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// quote is the text in quotation marks, cut short if it is very long.
func quote(text string) string {
	const limit = 100
	if len(text) <= limit {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:limit], "")) + "..."
}
