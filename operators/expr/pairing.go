package expr

import (
	"bytes"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// pairing compares two vectors row by row.
type pairing struct {
	kind   dataflow.Kind
	cmp    comparison
	sx, sy uint8 // the scales of decimals
}

func newPairing(cmp comparison, x, y dataflow.Type) pairing {
	return pairing{x.Kind, cmp, x.Scale, y.Scale}
}

// rows lists the rows of sel for which x cmp y holds, taking no notice of NULL. Where valid is not set,
// values that are not fit to be compared are not looked at.
func (p pairing) rows(x, y *batch.Vector, valid batch.Bitmap, sel, dst []int32) []int32 {
	cmp := p.cmp
	if cmp == greater || cmp == lessEqual {
		x, y, cmp = y, x, cmp.swapped()
		p.sx, p.sy = p.sy, p.sx
	}
	flip := truth(cmp == notEqual || cmp == greaterEqual)
	equals := cmp == equal || cmp == notEqual
	dst = room(dst, count(x.Len, sel))
	switch p.kind {
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		return intPairs(x.Ints[:x.Len], y.Ints[:x.Len], equals, flip, sel, dst)
	case dataflow.Float:
		return floatPairs(x.Floats[:x.Len], y.Floats[:x.Len], equals, flip, sel, dst)
	}
	k, holds := 0, orders[cmp]
	for j := range dst {
		i := rowAt(sel, j)
		if valid != nil && !valid.Get(int(i)) {
			continue
		}
		dst[k] = i
		k += holds[p.order(x, y, int(i))+1]
	}
	return dst[:k]
}

// order is -1, 0 or 1 as row i of x is less than, equal to or greater than that of y.
func (p pairing) order(x, y *batch.Vector, i int) int {
	switch p.kind {
	case dataflow.Bool:
		return truth(x.Bits.Get(i)) - truth(y.Bits.Get(i))
	case dataflow.Decimal:
		return compareDecimals(x.Decimals[i], y.Decimals[i], p.sx, p.sy)
	case dataflow.Float:
		return compareFloats(x.Floats[i], y.Floats[i])
	case dataflow.String, dataflow.Bytes:
		return bytes.Compare(x.Bytes(i), y.Bytes(i))
	}
	return truth(x.Ints[i] > y.Ints[i]) - truth(x.Ints[i] < y.Ints[i])
}

// compareDecimals compares decimals of different scales. One that has too many digits at the other's
// scale is further from zero than any that has not.
func compareDecimals(x, y decimal.Num, sx, sy uint8) int {
	var ok bool
	switch {
	case sx < sy:
		sign := decimal.Sign(x)
		if x, ok = decimal.Rescale(x, sx, sy); !ok {
			return sign
		}
	case sy < sx:
		sign := decimal.Sign(y)
		if y, ok = decimal.Rescale(y, sy, sx); !ok {
			return -sign
		}
	}
	return decimal.Cmp(x, y)
}

// lessFloat orders floats totally: not-a-number is equal to itself and greater than all others.
func lessFloat(x, y float64) int { return truth(x < y) | truth(y != y)&truth(x == x) }

func equalFloat(x, y float64) int { return truth(x == y) | truth(x != x)&truth(y != y) }

func compareFloats(x, y float64) int { return lessFloat(y, x) - lessFloat(x, y) }

// intPairs lists the rows with x = y (equals) or x < y, or with flip = 1 the others.
func intPairs(x, y []int64, equals bool, flip int, sel, dst []int32) []int32 {
	k := 0
	switch {
	case equals && sel == nil:
		for i, v := range x {
			dst[k] = int32(i)
			k += truth(v == y[i]) ^ flip
		}
	case equals:
		for _, i := range sel {
			dst[k] = i
			k += truth(x[i] == y[i]) ^ flip
		}
	case sel == nil:
		for i, v := range x {
			dst[k] = int32(i)
			k += truth(v < y[i]) ^ flip
		}
	default:
		for _, i := range sel {
			dst[k] = i
			k += truth(x[i] < y[i]) ^ flip
		}
	}
	return dst[:k]
}

// floatPairs is intPairs for floats.
func floatPairs(x, y []float64, equals bool, flip int, sel, dst []int32) []int32 {
	k := 0
	switch {
	case equals && sel == nil:
		for i, v := range x {
			dst[k] = int32(i)
			k += equalFloat(v, y[i]) ^ flip
		}
	case equals:
		for _, i := range sel {
			dst[k] = i
			k += equalFloat(x[i], y[i]) ^ flip
		}
	case sel == nil:
		for i, v := range x {
			dst[k] = int32(i)
			k += lessFloat(v, y[i]) ^ flip
		}
	default:
		for _, i := range sel {
			dst[k] = i
			k += lessFloat(x[i], y[i]) ^ flip
		}
	}
	return dst[:k]
}
