package decimal

import "math/bits"

// MaxDigits is the largest number of digits of a decimal.
const MaxDigits = 38

// Num is a signed 128-bit integer in two's complement: the unscaled value of a decimal, whose scale
// is kept by its type. Its memory is an Arrow decimal128 on a little-endian machine. Values of a
// decimal column have at most 38 digits; a Num by itself can be a little larger.
type Num struct {
	Lo uint64
	Hi int64
}

// FromInt64 returns v, of scale 0.
func FromInt64(v int64) Num { return Num{Lo: uint64(v), Hi: v >> 63} }

// Int64 returns n as an int64, and whether it fits.
func Int64(n Num) (int64, bool) {
	v := int64(n.Lo)
	return v, n.Hi == v>>63
}

// Sign is -1, 0 or 1.
func Sign(n Num) int {
	switch {
	case n.Hi < 0:
		return -1
	case n.Hi == 0 && n.Lo == 0:
		return 0
	}
	return 1
}

// IsZero reports whether n is 0.
func IsZero(n Num) bool { return n == Num{} }

// Cmp compares two numbers of the same scale: -1 if a < b, 0 if they are equal, 1 if a > b.
func Cmp(a, b Num) int {
	switch {
	case a == b:
		return 0
	case a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo:
		return -1
	}
	return 1
}

// Fits reports whether n has at most precision digits.
func Fits(n Num, precision uint8) bool {
	m, _ := magnitude(n)
	return less(m, pow10[precision])
}

// Neg returns -n.
func Neg(n Num) Num {
	lo, borrow := bits.Sub64(0, n.Lo, 0)
	hi, _ := bits.Sub64(0, uint64(n.Hi), borrow)
	return Num{Lo: lo, Hi: int64(hi)}
}

// Add returns a + b, of the operands' common scale.
func Add(a, b Num) (Num, bool) {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(uint64(a.Hi), uint64(b.Hi), carry)
	sum := Num{Lo: lo, Hi: int64(hi)}
	if (a.Hi^sum.Hi)&(b.Hi^sum.Hi) < 0 {
		return sum, false
	}
	return sum, inRange(sum)
}

// Sub returns a - b, of the operands' common scale.
func Sub(a, b Num) (Num, bool) {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi, _ := bits.Sub64(uint64(a.Hi), uint64(b.Hi), borrow)
	diff := Num{Lo: lo, Hi: int64(hi)}
	if (a.Hi^b.Hi)&(a.Hi^diff.Hi) < 0 {
		return diff, false
	}
	return diff, inRange(diff)
}

// Mul returns a * b, whose scale is the sum of the operands' scales.
func Mul(a, b Num) (Num, bool) {
	ma, na := magnitude(a)
	mb, nb := magnitude(b)
	if ma.hi|mb.hi == 0 {
		hi, lo := bits.Mul64(ma.lo, mb.lo)
		return signed(uint128{hi, lo}, na != nb)
	}
	hi, lo := mul(ma, mb)
	if hi != (uint128{}) {
		return Num{}, false
	}
	return signed(lo, na != nb)
}

// Div returns a / b rounded to scale sr, where sa and sb are the scales of a and b. b is not 0.
func Div(a, b Num, sa, sb, sr uint8) (Num, bool) {
	ma, na := magnitude(a)
	mb, nb := magnitude(b)
	var hi uint128
	lo := ma
	// The quotient of the unscaled values has scale sa-sb; shift more digits follow in the result.
	shift := int(sr) + int(sb) - int(sa)
	switch {
	case shift < 0:
		var over uint128
		over, mb = mul(mb, pow10[-shift])
		if over != (uint128{}) {
			return Num{}, true // the divisor is more than twice any dividend
		}
	case shift <= MaxDigits:
		hi, lo = mul(ma, pow10[shift])
	default:
		hi, lo = mul(ma, pow10[MaxDigits])
		var ok bool
		if hi, lo, ok = mulWide(hi, lo, pow10[shift-MaxDigits]); !ok {
			return Num{}, false
		}
	}
	if !less(hi, mb) {
		return Num{}, false
	}
	q, r := div(hi, lo, mb)
	return signed(roundUp(q, r, mb), na != nb)
}

// Rem returns the remainder of the division of a by b, truncated towards zero: it has a's sign. Both
// have the same scale, which is the result's too. b is not 0.
func Rem(a, b Num) (Num, bool) {
	ma, na := magnitude(a)
	mb, _ := magnitude(b)
	_, r := div(uint128{}, ma, mb)
	return signed(r, na)
}

// Rescale returns n, which has scale from, as a number of scale to.
func Rescale(n Num, from, to uint8) (Num, bool) {
	if from == to {
		return n, inRange(n)
	}
	m, neg := magnitude(n)
	if to > from {
		hi, lo := mul(m, pow10[to-from])
		if hi != (uint128{}) {
			return Num{}, false
		}
		return signed(lo, neg)
	}
	d := pow10[from-to]
	q, r := div(uint128{}, m, d)
	return signed(roundUp(q, r, d), neg)
}

// magnitude returns |n| and whether n is negative.
func magnitude(n Num) (uint128, bool) {
	if n.Hi < 0 {
		n = Neg(n)
		return uint128{uint64(n.Hi), n.Lo}, true
	}
	return uint128{uint64(n.Hi), n.Lo}, false
}

// signed returns the number of magnitude m, and whether it has at most MaxDigits digits.
func signed(m uint128, neg bool) (Num, bool) {
	n := Num{Lo: m.lo, Hi: int64(m.hi)}
	if neg {
		n = Neg(n)
	}
	return n, less(m, pow10[MaxDigits])
}

// inRange reports whether n has at most MaxDigits digits.
func inRange(n Num) bool {
	if n.Hi == int64(n.Lo)>>63 {
		return true
	}
	m, _ := magnitude(n)
	return less(m, pow10[MaxDigits])
}

// roundUp adds one to quotient q if remainder r is at least half of divisor d.
func roundUp(q, r, d uint128) uint128 {
	if rest := sub(d, r); !less(r, rest) {
		lo, carry := bits.Add64(q.lo, 1, 0)
		return uint128{q.hi + carry, lo}
	}
	return q
}
