package value

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"unsafe"

	"sluice/dataflow/decimal"
)

// The errors of ParseFloat.
var (
	ErrFloat      = errors.New("is not a float")
	ErrFloatRange = errors.New("is out of range for float")
)

// exactPow10 holds the powers of ten that a float holds exactly.
var exactPow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
	1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// ParseFloat reads a float: the float nearest to the decimal number that the text is.
func ParseFloat(text []byte) (float64, error) {
	s := text
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	var m uint64
	i := 0
	for i < len(s) && s[i]-'0' <= 9 {
		m = m*10 + uint64(s[i]-'0')
		i++
	}
	digits, exp := i, 0
	if i < len(s) && s[i] == '.' {
		i++
		start := i
		if i+8 <= len(s) {
			if x := binary.LittleEndian.Uint64(s[i:]); eightDigits(x) {
				m = m*1e8 + parseEight(x)
				i += 8
			}
		}
		for i < len(s) && s[i]-'0' <= 9 {
			m = m*10 + uint64(s[i]-'0')
			i++
		}
		exp = start - i
		digits -= exp
	}
	if digits == 0 {
		return 0, ErrFloat
	}
	if i < len(s) {
		e, ok := decimal.ParseExponent(s[i:])
		if !ok {
			return 0, ErrFloat
		}
		exp += e
	}
	// With a mantissa and a power of ten that are exact, one operation rounds once.
	if digits <= 19 && m < 1<<53 {
		f := float64(m)
		if neg {
			f = -f
		}
		switch {
		case exp == 0:
			return f, nil
		case exp < 0 && -exp < len(exactPow10):
			return f / exactPow10[-exp], nil
		case exp > 0 && exp < len(exactPow10):
			return f * exactPow10[exp], nil
		}
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
	if err != nil {
		return 0, ErrFloatRange // the syntax is right
	}
	return f, nil
}

// AppendFloat appends the shortest decimal number that reads back as v.
func AppendFloat(dst []byte, v float64) []byte {
	a := math.Abs(v)
	if a < 1e15 && a >= 1e-3 {
		if m, k, ok := fewDecimals(a); ok {
			if v < 0 {
				dst = append(dst, '-')
			}
			return appendFixed(dst, m, k)
		}
	}
	if a == 0 || a >= 1e-7 && a < 1e21 {
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, v, 'e', -1, 64)
	// One digit of an exponent is written as one: e-08 becomes e-8.
	if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// fewDecimals returns m and the least k, at most 9, with a = m / 10^k, as the nearest float; ok is false if
// there is none, or if m would not be below 10^15. Below that each such m has its own float, so the
// digits of m are the shortest ones: 6 and 9 places are tried, and zeros at the end dropped.
func fewDecimals(a float64) (m uint64, k int, ok bool) {
	if m = uint64(a); float64(m) == a {
		return m, 0, true
	}
	switch {
	case a >= 1e9:
		return 0, 0, false
	case float64(uint64(a*1e6+0.5))/1e6 == a:
		m, k = uint64(a*1e6+0.5), 6
	case a < 1e6 && float64(uint64(a*1e9+0.5))/1e9 == a:
		m, k = uint64(a*1e9+0.5), 9
	default:
		return 0, 0, false
	}
	for k > 0 {
		q := m / 10
		if q*10 != m {
			break
		}
		m, k = q, k-1
	}
	return m, k, true
}

// appendFixed appends m / 10^k; k is at most 9.
func appendFixed(dst []byte, m uint64, k int) []byte {
	if k == 0 {
		return strconv.AppendUint(dst, m, 10)
	}
	p := uint64(exactPow10[k])
	whole := m / p
	fraction := m - whole*p
	dst = append(strconv.AppendUint(dst, whole, 10), '.')
	n := len(dst)
	dst = append(dst, "000000000"[:k]...)
	for i := n + k - 1; fraction > 0; i-- {
		q := fraction / 10
		dst[i] = byte('0' + fraction - q*10)
		fraction = q
	}
	return dst
}
