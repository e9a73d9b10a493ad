package decimal

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"unsafe"
)

// ErrSyntax is the error of Parse for text that is not a number at all.
var ErrSyntax = errors.New("is not a decimal")

// Parse reads a number of at most precision digits, scale of them after the point: an optional sign,
// digits with an optional point, and an optional exponent (e or E). It never rounds: digits other than
// zero beyond the scale are an error, and so are more than precision-scale digits before the point.
// The text of an error is a predicate, to be put after the quoted number.
func Parse(text []byte, precision, scale uint8) (Num, error) {
	s := text
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if m, fraction, ok := parseShort(s); ok {
		return place(uint128{0, m}, neg, -fraction, precision, scale)
	}
	var m uint128
	digits, fraction := 0, 0 // digits read at all, and after the point
	zeros := 0               // of the fraction, held back until another digit follows
	point := false
	i := 0
	for ; i < len(s); i++ {
		c := s[i]
		if c == '.' && !point {
			point = true
			continue
		}
		d := uint64(c - '0')
		if d > 9 {
			break
		}
		digits++
		if point && d == 0 {
			zeros++
			continue
		}
		for ; zeros > 0 && !full(m); zeros-- {
			m = mulAdd(m, 10, 0)
			fraction++
		}
		if full(m) {
			return Num{}, tooLong(s[i:], point, precision, scale)
		}
		m = mulAdd(m, 10, d)
		if point {
			fraction++
		}
	}
	if digits == 0 {
		return Num{}, ErrSyntax
	}
	exp := 0
	if i < len(s) {
		var ok bool
		if exp, ok = ParseExponent(s[i:]); !ok {
			return Num{}, ErrSyntax
		}
	}
	return place(m, neg, exp-fraction, precision, scale)
}

// parseShort reads digits with at most one point that fit 64 bits whatever they are.
func parseShort(s []byte) (m uint64, fraction int, ok bool) {
	if len(s) == 0 || len(s) > 19 {
		return 0, 0, false
	}
	point := -1
	for i, c := range s {
		d := c - '0'
		if d > 9 {
			if c != '.' || point >= 0 || len(s) == 1 {
				return 0, 0, false
			}
			point = i
			continue
		}
		m = m*10 + uint64(d)
	}
	if point >= 0 {
		fraction = len(s) - 1 - point
	}
	return m, fraction, true
}

// full reports whether m may have 38 digits already.
func full(m uint128) bool { return m.hi > pow10[MaxDigits-1].hi }

// place returns m * 10^exp at the scale, if it can be had exactly.
func place(m uint128, neg bool, exp int, precision, scale uint8) (Num, error) {
	if m == (uint128{}) {
		return Num{}, nil
	}
	shift := exp + int(scale)
	for ; shift < 0; shift++ {
		q, r := div(uint128{}, m, uint128{0, 10})
		if r.lo != 0 {
			return Num{}, fractionError(scale)
		}
		m = q
	}
	if shift > MaxDigits {
		return Num{}, rangeError(precision, scale)
	}
	hi, lo := mul(m, pow10[shift])
	if hi != (uint128{}) || !less(lo, pow10[precision]) {
		return Num{}, rangeError(precision, scale)
	}
	n, _ := signed(lo, neg)
	return n, nil
}

func fractionError(scale uint8) error {
	if scale == 0 {
		return errors.New("has digits after the point, and its type has none")
	}
	return fmt.Errorf("has more than %d digits after the point", scale)
}

func rangeError(precision, scale uint8) error {
	return fmt.Errorf("is out of range for decimal(%d,%d)", precision, scale)
}

// tooLong is the error for a number with too many digits, the rest of which is rest: it may turn out
// to be no number.
func tooLong(rest []byte, point bool, precision, scale uint8) error {
	for i, c := range rest {
		if c-'0' <= 9 {
			continue
		}
		if c == '.' && !point {
			if err := tooLong(rest[i+1:], true, precision, scale); err == ErrSyntax {
				return err
			}
			break
		}
		if _, ok := ParseExponent(rest[i:]); !ok {
			return ErrSyntax
		}
		break
	}
	if point {
		return fractionError(scale)
	}
	return rangeError(precision, scale)
}

// ParseExponent reads e or E, an optional sign and digits. Exponents that are too large for any use are
// all the same.
func ParseExponent(s []byte) (int, bool) {
	if s[0]|0x20 != 'e' {
		return 0, false
	}
	s = s[1:]
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, false
	}
	e := 0
	for _, c := range s {
		d := int(c - '0')
		if d > 9 {
			return 0, false
		}
		e = min(e*10+d, 1<<20)
	}
	if neg {
		e = -e
	}
	return e, true
}

// mulAdd returns m*f + v; the product must fit.
func mulAdd(m uint128, f, v uint64) uint128 {
	hi, lo := bits.Mul64(m.lo, f)
	lo, carry := bits.Add64(lo, v, 0)
	return uint128{m.hi*f + hi + carry, lo}
}

// Append appends n, which has the given scale, to dst: plain digits without trailing zeros after the
// point, and without the point if nothing follows it.
func Append(dst []byte, n Num, scale uint8) []byte {
	m, neg := magnitude(n)
	if neg {
		dst = append(dst, '-')
	}
	var buf [40]byte
	digits := appendDigits(buf[:0], m)
	whole := len(digits) - int(scale)
	fraction := digits[max(whole, 0):]
	for len(fraction) > 0 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	if whole > 0 {
		dst = append(dst, digits[:whole]...)
	} else {
		dst = append(dst, '0')
	}
	if len(fraction) == 0 {
		return dst
	}
	dst = append(dst, '.')
	for ; whole < 0; whole++ {
		dst = append(dst, '0')
	}
	return append(dst, fraction...)
}

// appendDigits appends the decimal digits of m.
func appendDigits(dst []byte, m uint128) []byte {
	if m.hi == 0 {
		return strconv.AppendUint(dst, m.lo, 10)
	}
	const chunk = 1e19 // the largest power of ten in 64 bits
	q, r := div(uint128{}, m, uint128{0, chunk})
	dst = appendDigits(dst, q)
	start := len(dst)
	dst = append(dst, "0000000000000000000"...)
	for i := len(dst) - 1; i >= start; i-- {
		dst[i] = byte('0' + r.lo%10)
		r.lo /= 10
	}
	return dst
}

var floatPow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
	1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// Float64 returns the float nearest to n, which has the given scale.
func Float64(n Num, scale uint8) float64 {
	m, neg := magnitude(n)
	if m.hi == 0 && m.lo < 1<<53 && int(scale) < len(floatPow10) {
		// Both are exact, so the quotient is rounded once.
		f := float64(m.lo) / floatPow10[scale]
		if neg {
			return -f
		}
		return f
	}
	var buf [64]byte
	text := buf[:0]
	if neg {
		text = append(text, '-')
	}
	text = append(appendDigits(text, m), 'e', '-')
	text = strconv.AppendUint(text, uint64(scale), 10)
	f, _ := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64) // cannot fail
	return f
}

// FromFloat64 returns f rounded to the scale. It takes f for the shortest decimal number that reads
// back as f, which is how f is written: 0.15 gives 0.2 at scale 1, although the float is a little less.
// NaN and infinities are out of range.
func FromFloat64(f float64, scale uint8) (Num, bool) {
	if a := math.Abs(f); a < 1<<53 && a == math.Trunc(a) {
		return Rescale(FromInt64(int64(f)), 0, scale)
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Num{}, false
	}
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], math.Abs(f), 'e', -1, 64) // d.ddde-dd
	var m uint64
	fraction, i := 0, 0
	for ; text[i] != 'e'; i++ {
		if text[i] == '.' {
			continue
		}
		m = m*10 + uint64(text[i]-'0')
		fraction++
	}
	exp, _ := ParseExponent(text[i:])
	shift := exp - (fraction - 1) + int(scale)
	switch {
	case shift > MaxDigits:
		return Num{}, false
	case shift >= 0:
		hi, lo := mul(uint128{0, m}, pow10[shift])
		if hi != (uint128{}) {
			return Num{}, false
		}
		return signed(lo, f < 0)
	case shift < -MaxDigits:
		return Num{}, true // m has at most 17 digits
	}
	d := pow10[-shift]
	q, r := div(uint128{}, uint128{0, m}, d)
	return signed(roundUp(q, r, d), f < 0)
}
