package expr

import (
	"fmt"
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
	"sluice/operators/value"
)

// cast builds a conversion, whether it is written or implied.
func (b *builder) cast(t *typed) evaluator {
	from, to := t.args[0].typ, t.typ
	x := b.value(t.args[0])
	switch {
	case to.Kind == dataflow.String:
		return &toText{result: newResult(t), x: x, from: from}
	case from.Kind == dataflow.String && to.Kind == dataflow.Bytes:
		return &bytesFromText{result: newResult(t), x: x}
	case from.Kind == dataflow.Int && to.Kind == dataflow.Bool:
		return &intToBool{result: newResult(t), x: x}
	}
	return &castValue{result: newResult(t), x: x, from: from, convert: conversion(from, to)}
}

// castValue casts to a type of fixed width, row by row.
type castValue struct {
	result
	x       evaluator
	from    dataflow.Type
	convert func(dst, src *batch.Vector, i int) bool // false: the value has no counterpart
}

func (e *castValue) eval(r *run, sel []int32) *batch.Vector {
	x := e.x.eval(r, sel)
	out := e.reset(r.n)
	e.nullsOf(x)
	if e.typ.Kind == dataflow.Float && e.from.Kind == dataflow.Int && dense(r.n, sel) {
		for i, v := range x.Ints[:r.n] {
			out.Floats[i] = float64(v)
		}
		return out
	}
	e.each(sel, func(i int32) {
		if !e.convert(out, x, int(i)) {
			e.failCast(r, x, i)
		}
	})
	return out
}

// failCast reports a value that cannot be cast.
func (o *result) failCast(r *run, x *batch.Vector, i int32) {
	v := scalarAt(x, int(i))
	shown := string(appendLiteral(nil, x.Type, &v))
	if x.Type.Kind == dataflow.String {
		shown = quote(v.s, span{0, len(v.s)})
	}
	o.fail(r, i, fmt.Sprintf("%s is not %s", shown, withArticle(o.typ)))
}

func withArticle(t dataflow.Type) string {
	if t.Kind == dataflow.Int {
		return "an int"
	}
	if t.Kind == dataflow.Bytes {
		return "base64"
	}
	return "a " + t.String()
}

// conversion returns the function that converts row i from one type to another.
func conversion(from, to dataflow.Type) func(dst, src *batch.Vector, i int) bool {
	switch to.Kind {
	case dataflow.Bool:
		return textToBool
	case dataflow.Float:
		return toFloat(from)
	case dataflow.Decimal:
		return toDecimal(from, to)
	case dataflow.Int:
		return toInt(from)
	case dataflow.Timestamp:
		return func(dst, src *batch.Vector, i int) (ok bool) {
			v, err := value.ParseTimestamp(src.Bytes(i))
			dst.Ints[i] = v
			return err == nil
		}
	}
	return func(dst, src *batch.Vector, i int) (ok bool) {
		v, err := value.ParseDuration(src.Bytes(i))
		dst.Ints[i] = v
		return err == nil
	}
}

func textToBool(dst, src *batch.Vector, i int) bool {
	v, err := value.ParseBool(src.Bytes(i))
	dst.Bits.SetTo(i, v)
	return err == nil
}

func toFloat(from dataflow.Type) func(dst, src *batch.Vector, i int) bool {
	switch from.Kind {
	case dataflow.Decimal:
		return func(dst, src *batch.Vector, i int) bool {
			dst.Floats[i] = decimal.Float64(src.Decimals[i], from.Scale)
			return true
		}
	case dataflow.String:
		return func(dst, src *batch.Vector, i int) bool {
			v, err := value.ParseFloat(src.Bytes(i))
			dst.Floats[i] = v
			return err == nil
		}
	}
	return func(dst, src *batch.Vector, i int) bool {
		dst.Floats[i] = float64(src.Ints[i])
		return true
	}
}

func toDecimal(from, to dataflow.Type) func(dst, src *batch.Vector, i int) bool {
	fits := func(dst *batch.Vector, i int, d decimal.Num, ok bool) bool {
		dst.Decimals[i] = d
		return ok && decimal.Fits(d, to.Precision)
	}
	switch from.Kind {
	case dataflow.Int:
		return func(dst, src *batch.Vector, i int) bool {
			d, ok := decimal.Rescale(decimal.FromInt64(src.Ints[i]), 0, to.Scale)
			return fits(dst, i, d, ok)
		}
	case dataflow.Float:
		return func(dst, src *batch.Vector, i int) bool {
			d, ok := decimal.FromFloat64(src.Floats[i], to.Scale)
			return fits(dst, i, d, ok)
		}
	case dataflow.String:
		return func(dst, src *batch.Vector, i int) bool {
			d, err := value.ParseDecimal(src.Bytes(i), to.Precision, to.Scale)
			return fits(dst, i, d, err == nil)
		}
	}
	return func(dst, src *batch.Vector, i int) bool {
		d, ok := decimal.Rescale(src.Decimals[i], from.Scale, to.Scale)
		return fits(dst, i, d, ok)
	}
}

func toInt(from dataflow.Type) func(dst, src *batch.Vector, i int) bool {
	switch from.Kind {
	case dataflow.Bool:
		return func(dst, src *batch.Vector, i int) bool {
			dst.Ints[i] = int64(truth(src.Bits.Get(i)))
			return true
		}
	case dataflow.Float:
		return func(dst, src *batch.Vector, i int) (ok bool) {
			dst.Ints[i], ok = roundToInt(src.Floats[i])
			return ok
		}
	case dataflow.Decimal:
		return func(dst, src *batch.Vector, i int) bool {
			d, ok := decimal.Rescale(src.Decimals[i], from.Scale, 0)
			v, fits := decimal.Int64(d)
			dst.Ints[i] = v
			return ok && fits
		}
	}
	return func(dst, src *batch.Vector, i int) bool {
		v, err := value.ParseInt(src.Bytes(i))
		dst.Ints[i] = v
		return err == nil
	}
}

// roundToInt rounds to the nearest int, halves away from zero.
func roundToInt(f float64) (int64, bool) {
	f = math.Round(f)
	if !(f >= -1<<63 && f < 1<<63) {
		return 0, false
	}
	return int64(f), true
}

// intToBool is TRUE for every int but 0.
type intToBool struct {
	result
	x evaluator
}

func (e *intToBool) eval(r *run, sel []int32) *batch.Vector {
	x := e.x.eval(r, sel)
	out := e.reset(r.n)
	e.nullsOf(x)
	for i, v := range x.Ints[:r.n] {
		out.Bits.SetTo(i, v != 0)
	}
	return out
}

// toText casts to string: the text that a file would have.
type toText struct {
	result
	x    evaluator
	from dataflow.Type
}

func (e *toText) eval(r *run, sel []int32) *batch.Vector {
	x := e.x.eval(r, sel)
	out := e.reset(r.n)
	e.nullsOf(x)
	for j := range count(r.n, sel) {
		i := int(rowAt(sel, j))
		e.gap(j, sel)
		if !x.IsNull(i) {
			out.Data = AppendText(out.Data, x, i)
		}
		out.Offsets[i+1] = int32(len(out.Data))
	}
	e.endText(sel)
	return out
}

// AppendText appends row i of x, which is not NULL, as CAST to string writes it.
func AppendText(dst []byte, x *batch.Vector, i int) []byte {
	switch x.Type.Kind {
	case dataflow.Bool:
		return value.AppendBool(dst, x.Bits.Get(i))
	case dataflow.Int:
		return value.AppendInt(dst, x.Ints[i])
	case dataflow.Float:
		return value.AppendFloat(dst, x.Floats[i])
	case dataflow.Decimal:
		return value.AppendDecimal(dst, x.Decimals[i], x.Type.Scale)
	case dataflow.Timestamp:
		return value.AppendTimestamp(dst, x.Ints[i])
	case dataflow.Duration:
		return value.AppendDuration(dst, x.Ints[i])
	case dataflow.Bytes:
		return value.AppendBytes(dst, x.Bytes(i))
	}
	return append(dst, x.Bytes(i)...)
}

// bytesFromText casts a string to bytes: it is base64.
type bytesFromText struct {
	result
	x evaluator
}

func (e *bytesFromText) eval(r *run, sel []int32) *batch.Vector {
	x := e.x.eval(r, sel)
	out := e.reset(r.n)
	e.nullsOf(x)
	for j := range count(r.n, sel) {
		i := int(rowAt(sel, j))
		e.gap(j, sel)
		if !x.IsNull(i) {
			before := len(out.Data)
			data, err := value.AppendParsedBytes(out.Data, x.Bytes(i))
			out.Data = data
			if err != nil {
				out.Data = out.Data[:before]
				e.failCast(r, x, int32(i))
			}
		}
		out.Offsets[i+1] = int32(len(out.Data))
	}
	e.endText(sel)
	return out
}
