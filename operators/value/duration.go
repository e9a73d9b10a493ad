package value

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
)

// The errors of ParseDuration.
var (
	ErrDuration      = errors.New("is not a duration")
	ErrDurationRange = errors.New("is out of range for duration")
	ErrDurationFine  = errors.New("has more digits than microseconds")
)

// ParseDuration reads a duration such as 250ms, 2d or 1h2m3.5s.
func ParseDuration(text []byte) (int64, error) {
	s := text
	neg := false
	if len(s) > 0 && s[0] == '-' {
		neg = true
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, ErrDuration
	}
	var total uint64
	last := uint64(math.MaxUint64) // the unit before, to which the next is smaller
	over, fine := false, false
	for len(s) > 0 {
		n := 0
		for n < len(s) && (s[n]-'0' <= 9 || s[n] == '.') {
			n++
		}
		number := s[:n]
		unit, size := durationUnit(s[n:])
		if unit == 0 || unit >= last {
			return 0, ErrDuration
		}
		last = unit
		s = s[n+size:]
		v, err := scaleNumber(number, unit)
		switch err {
		case nil:
		case ErrDurationRange:
			over = true
		case ErrDurationFine:
			fine = true
		default:
			return 0, err
		}
		var carry uint64
		total, carry = bits.Add64(total, v, 0)
		over = over || carry != 0
	}
	switch {
	case fine:
		return 0, ErrDurationFine
	case over, total > 1<<63, total == 1<<63 && !neg:
		return 0, ErrDurationRange
	case neg:
		return -int64(total), nil
	}
	return int64(total), nil
}

// durationUnit returns the microseconds of the unit that s begins with and the length of its name; 0 if
// there is none.
func durationUnit(s []byte) (micros uint64, size int) {
	if len(s) == 0 {
		return 0, 0
	}
	if len(s) >= 2 && s[1] == 's' {
		switch s[0] {
		case 'm':
			return 1e3, 2
		case 'u':
			return 1, 2
		}
	}
	switch s[0] {
	case 'd':
		return microsPerDay, 1
	case 'h':
		return 3600 * microsPerSecond, 1
	case 'm':
		return 60 * microsPerSecond, 1
	case 's':
		return microsPerSecond, 1
	}
	return 0, 0
}

// scaleNumber returns unit times the decimal number s, which consists of digits and points.
func scaleNumber(s []byte, unit uint64) (uint64, error) {
	whole, i := uint64(0), 0
	over := false
	for ; i < len(s) && s[i] != '.'; i++ {
		d := uint64(s[i] - '0')
		over = over || whole > (math.MaxUint64-d)/10
		whole = whole*10 + d
	}
	hi, v := bits.Mul64(whole, unit)
	over = over || hi != 0
	if i < len(s) {
		fraction := s[i+1:]
		if len(fraction) == 0 {
			return 0, ErrDuration
		}
		part, err := scaleFraction(fraction, unit)
		if err != nil {
			return 0, err
		}
		var carry uint64
		v, carry = bits.Add64(v, part, 0)
		over = over || carry != 0
	} else if i == 0 {
		return 0, ErrDuration
	}
	if i == 0 {
		return 0, ErrDuration
	}
	if over {
		return 0, ErrDurationRange
	}
	return v, nil
}

// scaleFraction returns unit times the fraction whose digits s are.
func scaleFraction(s []byte, unit uint64) (uint64, error) {
	for _, c := range s {
		if c == '.' {
			return 0, ErrDuration
		}
	}
	for len(s) > 0 && s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	// A day's microseconds are 2^13 * 5^8 * 3^3, so a fraction that comes out even has at most 13 digits.
	if len(s) > 13 {
		return 0, ErrDurationFine
	}
	m, p := uint64(0), uint64(1)
	for _, c := range s {
		m = m*10 + uint64(c-'0')
		p *= 10
	}
	hi, lo := bits.Mul64(m, unit)
	v, rest := bits.Div64(hi, lo, p)
	if rest != 0 {
		return 0, ErrDurationFine
	}
	return v, nil
}

// AppendDuration appends v in hours, minutes and seconds.
func AppendDuration(dst []byte, v int64) []byte {
	if v == 0 {
		return append(dst, "0s"...)
	}
	u := uint64(v)
	if v < 0 {
		dst = append(dst, '-')
		u = -u
	}
	seconds := u / microsPerSecond
	micros := int64(u - seconds*microsPerSecond)
	if h := seconds / 3600; h > 0 {
		dst = append(strconv.AppendUint(dst, h, 10), 'h')
	}
	if m := seconds / 60 % 60; m > 0 {
		dst = append(strconv.AppendUint(dst, m, 10), 'm')
	}
	if s := seconds % 60; s > 0 || micros > 0 {
		dst = strconv.AppendUint(dst, s, 10)
		if micros > 0 {
			dst = appendMicros(dst, micros)
		}
		dst = append(dst, 's')
	}
	return dst
}
