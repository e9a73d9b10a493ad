package naive

import (
	"math"
	"math/big"
	"time"
)

func addTime() {
	functions["extract()"] = func(n *Node, a []Value) (Value, error) {
		return extract(a[0].Text, a[1].Int, n.Args[1].Type)
	}
	for _, unit := range []string{"year", "month", "day", "hour", "minute", "second"} {
		functions[unit+"()"] = func(n *Node, a []Value) (Value, error) {
			return extract(unit, a[0].Int, n.Args[0].Type)
		}
	}
	functions["date_trunc()"] = func(n *Node, a []Value) (Value, error) { return dateTrunc(a[0].Text, a[1].Int) }
}

// extract is one part of a timestamp or duration. Milliseconds and microseconds count from the start of
// the minute, epoch is the whole in seconds.
func extract(unit string, us int64, of Type) (Value, error) {
	switch {
	case unit == "epoch":
		return Value{Dec: big.NewInt(us)}, nil
	case of.Kind == Duration:
		return extractDuration(unit, us)
	}
	t := time.UnixMicro(us).UTC()
	_, week := t.ISOWeek()
	v := map[string]int{
		"year": t.Year(), "quarter": (int(t.Month()) + 2) / 3, "month": int(t.Month()), "week": week, "day": t.Day(),
		"hour": t.Hour(), "minute": t.Minute(), "second": t.Second(),
		"millisecond": t.Second()*1000 + t.Nanosecond()/1e6, "microsecond": t.Second()*1e6 + t.Nanosecond()/1e3,
		"dow": int(t.Weekday()), "doy": t.YearDay(),
	}
	if x, ok := v[unit]; ok {
		return Value{Int: int64(x)}, nil
	}
	return fail("no unit %q", unit)
}

// extractDuration gives parts that have the sign of the whole. Days are the longest.
func extractDuration(unit string, us int64) (Value, error) {
	length := map[string][2]int64{ // of the unit, and of what it is a part of
		"day": {86400e6, math.MaxInt64}, "hour": {3600e6, 86400e6}, "minute": {60e6, 3600e6},
		"second": {1e6, 60e6}, "millisecond": {1e3, 60e6}, "microsecond": {1, 60e6},
	}
	l, ok := length[unit]
	if !ok {
		return fail("a duration has no %s", unit)
	}
	sign, rest := int64(1), new(big.Int).Abs(big.NewInt(us))
	if us < 0 {
		sign = -1
	}
	if unit != "day" {
		rest.Mod(rest, big.NewInt(l[1]))
	}
	return Value{Int: sign * rest.Div(rest, big.NewInt(l[0])).Int64()}, nil
}

// dateTrunc is the start of the unit that the timestamp lies in. Weeks start on Monday.
func dateTrunc(unit string, us int64) (Value, error) {
	t := time.UnixMicro(us).UTC()
	y, m, d := t.Date()
	switch unit {
	case "year":
		m, d = 1, 1
	case "quarter":
		m, d = (m-1)/3*3+1, 1
	case "month":
		d = 1
	case "week":
		d -= (int(t.Weekday()) + 6) % 7
	case "microsecond":
		return Value{Int: us}, nil
	}
	hour, minute, second, micros := 0, 0, 0, 0
	switch unit {
	case "millisecond":
		micros = t.Nanosecond() / 1e6 * 1e3
		fallthrough
	case "second":
		second = t.Second()
		fallthrough
	case "minute":
		minute = t.Minute()
		fallthrough
	case "hour":
		hour = t.Hour()
	}
	start := time.Date(y, m, d, hour, minute, second, 0, time.UTC)
	us2 := new(big.Int).Mul(big.NewInt(start.Unix()), big.NewInt(1e6))
	return integer(us2.Add(us2, big.NewInt(int64(micros))))
}

// functionType is the type of a function's result.
func functionType(op string, args []*Node) Type {
	switch op {
	case "extract()":
		if args[0].Value.Text == "epoch" {
			return DecimalType(19, 6)
		}
		return IntType
	case "length()", "position()", "sign()", "year()", "month()", "day()", "hour()", "minute()", "second()":
		return IntType
	case "starts_with()", "ends_with()", "regexp_like()":
		return BoolType
	case "sqrt()", "ln()", "log10()", "exp()", "power()":
		return FloatType
	case "date_trunc()":
		return TimestampType
	case "concat()":
		return StringType
	case "||":
		return joinedType(args)
	case "floor()", "ceil()", "round()":
		if t := args[0].Type; t.Kind == Decimal {
			return roundedType(op, args)
		}
	}
	return args[0].Type
}
