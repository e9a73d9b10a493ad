package expr

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// timeUnit is a part of a time, or a length to which a time is cut.
type timeUnit uint8

const (
	microsecondUnit timeUnit = iota
	millisecondUnit
	secondUnit
	minuteUnit
	hourUnit
	dayUnit
	weekUnit
	monthUnit
	quarterUnit
	yearUnit
	dayOfWeekUnit
	dayOfYearUnit
	epochUnit
)

var timeUnits = []string{"microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "dow", "doy", "epoch"}

func timeFunctions() []*function {
	list := []*function{
		{name: "now", signatures: []string{"now() timestamp"},
			doc:   "The time at which the row's epoch was formed. It is the same for all rows of an epoch, and when an epoch is worked on again.",
			check: checkNow, value: func(b *builder, t *typed) evaluator { return &nowValue{} }},
		{name: "date_trunc", signatures: []string{"date_trunc('unit', timestamp) timestamp"},
			doc:   "The start of the microsecond, millisecond, second, minute, hour, day, week, month, quarter or year in which the time lies, in UTC. Weeks start on Monday. The unit is a constant.",
			check: checkTrunc, value: buildTrunc},
		{name: "extract", signatures: []string{"extract(unit FROM timestamp) int", "extract(unit FROM duration) int", "extract(epoch FROM timestamp) decimal(19,6)", "extract(epoch FROM duration) decimal(19,6)"},
			doc:   "A part of a time in UTC: year, quarter, month, week (ISO 8601), day, doy (day of the year), dow (day of the week, Sunday is 0), hour, minute, second, millisecond and microsecond (both since the start of the minute), or epoch (seconds since 1970). Of a duration: day (all of them), hour, minute, second, millisecond, microsecond, epoch (its length in seconds).",
			check: checkExtract, value: buildExtract},
	}
	for unit, name := range timeUnits {
		switch timeUnit(unit) {
		case yearUnit, monthUnit, dayUnit, hourUnit, minuteUnit, secondUnit:
			list = append(list, &function{name: name, signatures: []string{name + "(timestamp) int", name + "(duration) int"},
				doc: "extract(" + name + " FROM ...).", value: buildExtract,
				check: func(c *checker, n *call, f *function, args []*typed) *typed {
					if len(args) != 1 {
						return c.badCall(n, f, args)
					}
					return checkPart(c, n, f, timeUnit(unit), args[0])
				}})
		}
	}
	return list
}

func checkNow(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) != 0 {
		return c.badCall(n, f, args)
	}
	return &typed{span: n.span, op: opCall, fn: f, typ: dataflow.TimestampType, volatile: true}
}

// nowValue is the clock of the epoch.
type nowValue struct{ vec batch.Vector }

func (e *nowValue) eval(r *run, _ []int32) *batch.Vector {
	e.vec.Reset(dataflow.TimestampType, r.n)
	fill(e.vec.Ints, r.ctx.Clock)
	return &e.vec
}

// unitOf reads the constant that names a unit, of those up to last.
func (c *checker) unitOf(a *typed, last timeUnit) (timeUnit, bool) {
	if !a.isConstant() || a.typ.Kind != dataflow.String || a.val.null {
		c.errorf(a.span, "the unit must be a constant, such as 'hour'")
		return 0, false
	}
	name := lowerASCII(a.val.s)
	for u, known := range timeUnits[:last+1] {
		if name == known || name == known+"s" {
			return timeUnit(u), true
		}
	}
	*c.errs = append(*c.errs, Error{a.start, "unknown unit " + quote(name, span{0, len(name)}), dataflow.Nearest(name, timeUnits[:last+1])})
	return 0, false
}

func checkTrunc(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) != 2 || !fits(args[1].typ, dataflow.TimestampType) {
		return c.badCall(n, f, args)
	}
	unit, ok := c.unitOf(args[0], yearUnit)
	if !ok {
		return &typed{span: n.span}
	}
	t := strict(n.span, opCall, dataflow.TimestampType, c.convert(args[1], dataflow.TimestampType))
	t.fn, t.unit, t.fails = f, unit, true
	return settle(t)
}

func buildTrunc(b *builder, t *typed) evaluator {
	step, origin := truncStep(t.unit)
	return &truncValue{result: newResult(t), x: b.value(t.args[0]), unit: t.unit, step: step, origin: origin}
}

// truncValue cuts times to a unit. step is its length, 0 if it has no fixed one.
type truncValue struct {
	result
	x            evaluator
	unit         timeUnit
	step, origin int64
}

func (e *truncValue) eval(r *run, sel []int32) *batch.Vector {
	x := e.x.eval(r, sel)
	out := e.reset(r.n)
	e.nullsOf(x)
	for j := range count(r.n, sel) {
		i := rowAt(sel, j)
		v := x.Ints[i]
		cut := v
		if e.step != 0 {
			over := (v - e.origin) % e.step
			cut -= over + e.step&(over>>63)
		} else {
			cut = truncCalendar(v, e.unit)
		}
		if out.Ints[i] = cut; cut > v && !x.IsNull(int(i)) { // it wrapped around
			e.fail(r, i, overflowNames[dataflow.Timestamp])
		}
	}
	return out
}

func checkExtract(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) != 2 {
		return c.badCall(n, f, args)
	}
	unit, ok := c.unitOf(args[0], epochUnit)
	if !ok {
		return &typed{span: n.span}
	}
	return checkPart(c, n, f, unit, args[1])
}

// checkPart types the extraction of a unit.
func checkPart(c *checker, n *call, f *function, unit timeUnit, x *typed) *typed {
	switch x.typ.Kind {
	case dataflow.Timestamp:
	case dataflow.Null:
		x = c.convert(x, dataflow.TimestampType)
	case dataflow.Duration:
		if unit > dayUnit && unit != epochUnit {
			return c.errorf(n.span, "a duration has no %s in %s", timeUnits[unit], c.quote(n))
		}
	default:
		return c.badCall(n, f, []*typed{x})
	}
	result := dataflow.IntType
	if unit == epochUnit {
		result = dataflow.DecimalType(19, 6)
	}
	t := strict(n.span, opCall, result, x)
	t.fn, t.unit = f, unit
	return settle(t)
}

func buildExtract(b *builder, t *typed) evaluator {
	unit, length := t.unit, t.args[0].typ.Kind == dataflow.Duration
	row := func(out *batch.Vector, args []*batch.Vector, i int) string {
		out.Ints[i] = timestampPart(args[0].Ints[i], unit)
		return ""
	}
	switch {
	case unit == epochUnit:
		row = func(out *batch.Vector, args []*batch.Vector, i int) string {
			out.Decimals[i] = decimal.FromInt64(args[0].Ints[i])
			return ""
		}
	case length:
		row = func(out *batch.Vector, args []*batch.Vector, i int) string {
			out.Ints[i] = durationPart(args[0].Ints[i], unit)
			return ""
		}
	}
	return fixedRows(row)(b, t)
}
