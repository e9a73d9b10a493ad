package value

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"sluice/dataflow/decimal"
)

// The errors of the Parse functions of this file.
var (
	ErrBool     = errors.New("is not a bool")
	ErrInt      = errors.New("is not an int")
	ErrIntRange = errors.New("is out of range for int")
	ErrBytes    = errors.New("is not base64")
)

// ParseBool reads a bool.
func ParseBool(text []byte) (bool, error) {
	switch len(text) {
	case 1:
		switch text[0] {
		case '1', 't', 'T':
			return true, nil
		case '0', 'f', 'F':
			return false, nil
		}
	case 4:
		if binary.LittleEndian.Uint32(text)|0x20202020 == 't'|'r'<<8|'u'<<16|'e'<<24 {
			return true, nil
		}
	case 5:
		if binary.LittleEndian.Uint32(text)|0x20202020 == 'f'|'a'<<8|'l'<<16|'s'<<24 && text[4]|0x20 == 'e' {
			return false, nil
		}
	}
	return false, ErrBool
}

// AppendBool appends true or false.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// ParseInt reads an int.
func ParseInt(text []byte) (int64, error) {
	s := text
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, ErrInt
	}
	if len(s) > 18 {
		return parseLongInt(s, neg)
	}
	var v uint64
	for len(s) >= 8 {
		x := binary.LittleEndian.Uint64(s)
		if !eightDigits(x) {
			return 0, ErrInt
		}
		v = v*1e8 + parseEight(x)
		s = s[8:]
	}
	for _, c := range s {
		d := c - '0'
		if d > 9 {
			return 0, ErrInt
		}
		v = v*10 + uint64(d)
	}
	if neg {
		return -int64(v), nil
	}
	return int64(v), nil
}

// eightDigits reports whether the eight bytes of x are ASCII digits.
func eightDigits(x uint64) bool {
	const high = 0xF0F0F0F0F0F0F0F0
	return x&high|(x+0x0606060606060606)&high>>4 == 0x3333333333333333
}

// parseEight returns the number whose digits are the bytes of x, the lowest byte first.
func parseEight(x uint64) uint64 {
	const mask = 0x000000FF000000FF
	x -= 0x3030303030303030
	x = x*10 + x>>8
	return (x&mask*(100+1000000<<32) + x>>16&mask*(1+10000<<32)) >> 32
}

// parseLongInt reads digits that may be too many.
func parseLongInt(s []byte, neg bool) (int64, error) {
	var v uint64
	over := false
	for _, c := range s {
		d := uint64(c - '0')
		if d > 9 {
			return 0, ErrInt
		}
		over = over || v > (math.MaxUint64-d)/10
		v = v*10 + d
	}
	switch {
	case over:
		return 0, ErrIntRange
	case neg && v <= 1<<63:
		return -int64(v), nil
	case !neg && v < 1<<63:
		return int64(v), nil
	}
	return 0, ErrIntRange
}

// AppendInt appends the digits of v.
func AppendInt(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }

// ParseDecimal reads a decimal of at most precision digits, scale of them after the point.
func ParseDecimal(text []byte, precision, scale uint8) (decimal.Num, error) {
	return decimal.Parse(text, precision, scale)
}

// AppendDecimal appends n, which has the given scale.
func AppendDecimal(dst []byte, n decimal.Num, scale uint8) []byte {
	return decimal.Append(dst, n, scale)
}

var strictBase64 = base64.StdEncoding.Strict()

// ParseBytes reads base64 into a new slice.
func ParseBytes(text []byte) ([]byte, error) { return AppendParsedBytes(nil, text) }

// AppendParsedBytes reads base64 and appends the bytes to dst. After an error it returns dst as it was.
func AppendParsedBytes(dst, text []byte) ([]byte, error) {
	for _, c := range text {
		if c == '\n' || c == '\r' { // which package base64 would pass over
			return dst, ErrBytes
		}
	}
	n := len(dst)
	dst, err := strictBase64.AppendDecode(dst, text)
	if err != nil {
		return dst[:n], ErrBytes
	}
	return dst, nil
}

// AppendBytes appends v in base64.
func AppendBytes(dst, v []byte) []byte { return base64.StdEncoding.AppendEncode(dst, v) }
