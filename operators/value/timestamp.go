package value

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// The errors of ParseTimestamp and TimestampFormat.Parse.
var (
	ErrTimestamp      = errors.New("is not a timestamp")
	ErrTimestampRange = errors.New("is out of range for timestamp")
	ErrTimestampFine  = errors.New("has more digits than microseconds")
)

// The first 8 and the second 8 bytes of a timestamp with digits 0, and what to add to each byte of the
// difference so that its top bit shows a byte that is no digit or the wrong separator.
const (
	datePattern      = '0' | '0'<<8 | '0'<<16 | '0'<<24 | '-'<<32 | '0'<<40 | '0'<<48 | '-'<<56
	dateCheck        = 0x7F76767F76767676
	timePatternT     = '0' | '0'<<8 | 'T'<<16 | '0'<<24 | '0'<<32 | ':'<<40 | '0'<<48 | '0'<<56
	timePatternSpace = '0' | '0'<<8 | ' '<<16 | '0'<<24 | '0'<<32 | ':'<<40 | '0'<<48 | '0'<<56
	timePatternLower = '0' | '0'<<8 | 't'<<16 | '0'<<24 | '0'<<32 | ':'<<40 | '0'<<48 | '0'<<56
	timeCheck        = 0x76767F76767F7676
	topBits          = 0x8080808080808080
)

// ParseTimestamp reads a timestamp in any of the usual forms.
func ParseTimestamp(text []byte) (int64, error) {
	if len(text) < 16 {
		return parseShortTimestamp(text)
	}
	x := binary.LittleEndian.Uint64(text) ^ datePattern
	y := binary.LittleEndian.Uint64(text[8:])
	switch text[10] {
	case 'T':
		y ^= timePatternT
	case ' ':
		y ^= timePatternSpace
	default:
		y ^= timePatternLower
	}
	if ((x+dateCheck)|x|(y+timeCheck)|y)&topBits != 0 {
		return parseShortTimestamp(text)
	}
	// Now byte i of x is digit i; multiplied so, it becomes the number that digits i and i+1 are.
	x = x*10 + x>>8
	y = y*10 + y>>8
	year, month := int64(x&0xFF*100+x>>16&0xFF), int64(x>>40&0xFF)
	day, hour, minute := int64(y&0xFF), int64(y>>24&0xFF), int64(y>>48&0xFF)
	if hour > 23 || minute > 59 || !validDate(year, month, day) {
		return 0, ErrTimestamp
	}
	v := daysFromCivil(year, month, day)*microsPerDay + (hour*3600+minute*60)*microsPerSecond
	rest := text[16:]
	if len(rest) >= 3 && rest[0] == ':' {
		d1, d0 := rest[1]-'0', rest[2]-'0'
		if d1 > 5 || d0 > 9 {
			return 0, ErrTimestamp
		}
		v += int64(d1*10+d0) * microsPerSecond
		rest = rest[3:]
		if len(rest) > 0 && rest[0] == '.' {
			micros, n, err := parseFraction(rest[1:])
			if err != nil {
				return 0, err
			}
			v += micros
			rest = rest[1+n:]
		}
	}
	if len(rest) != 0 && (len(rest) != 1 || rest[0]|0x20 != 'z') {
		offset, ok := parseOffset(rest)
		if !ok {
			return 0, ErrTimestamp
		}
		v -= offset
	}
	if v < minTimestamp || v > maxTimestamp {
		return 0, ErrTimestampRange
	}
	return v, nil
}

// parseFraction reads the digits at the start of s as a fraction of a second: its microseconds and the
// number of digits.
func parseFraction(s []byte) (micros int64, n int, err error) {
	for ; n < len(s) && s[n]-'0' <= 9; n++ {
		if n < 6 {
			micros = micros*10 + int64(s[n]-'0')
		} else if s[n] != '0' {
			err = ErrTimestampFine
		}
	}
	if n == 0 {
		return 0, 0, ErrTimestamp
	}
	for i := n; i < 6; i++ {
		micros *= 10
	}
	return micros, n, err
}

// parseOffset reads +hh:mm or -hh:mm, in microseconds.
func parseOffset(s []byte) (int64, bool) {
	if len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, false
	}
	h1, h0, m1, m0 := s[1]-'0', s[2]-'0', s[4]-'0', s[5]-'0'
	if h1 > 2 || h0 > 9 || h1*10+h0 > 23 || m1 > 5 || m0 > 9 {
		return 0, false
	}
	v := (int64(h1*10+h0)*60 + int64(m1*10+m0)) * 60 * microsPerSecond
	if s[0] == '-' {
		return -v, true
	}
	return v, true
}

// parseShortTimestamp reads a date or milliseconds since 1970.
func parseShortTimestamp(text []byte) (int64, error) {
	if len(text) == 10 && text[4] == '-' {
		x := binary.LittleEndian.Uint64(text) ^ datePattern
		d1, d0 := text[8]-'0', text[9]-'0'
		if ((x+dateCheck)|x)&topBits != 0 || d1 > 9 || d0 > 9 {
			return 0, ErrTimestamp
		}
		x = x*10 + x>>8
		year, month, day := int64(x&0xFF*100+x>>16&0xFF), int64(x>>40&0xFF), int64(d1*10+d0)
		if !validDate(year, month, day) {
			return 0, ErrTimestamp
		}
		if year == 0 {
			return 0, ErrTimestampRange
		}
		return daysFromCivil(year, month, day) * microsPerDay, nil
	}
	ms, err := ParseInt(text)
	switch {
	case err == ErrIntRange:
		return 0, ErrTimestampRange
	case err != nil:
		return 0, ErrTimestamp
	}
	return TimestampFromMillis(ms)
}

// TimestampFromMillis returns the timestamp that is ms milliseconds after 1970-01-01T00:00:00Z.
func TimestampFromMillis(ms int64) (int64, error) {
	if ms < minTimestamp/1000 || ms > maxTimestamp/1000 {
		return 0, ErrTimestampRange
	}
	return ms * 1000, nil
}

// AppendTimestamp appends v as RFC 3339 in UTC. Years outside 0001 to 9999, which no Parse function
// returns but arithmetic may, have a sign or more digits.
func AppendTimestamp(dst []byte, v int64) []byte {
	days, micros := split(v)
	var buf [20]byte
	b := buf[:]
	if v >= minTimestamp && v <= maxTimestamp {
		y, m, d := civilFromDays(days)
		put2(b[0:], y/100)
		put2(b[2:], y%100)
		b[4] = '-'
		put2(b[5:], m)
		b[7] = '-'
		put2(b[8:], d)
	} else {
		dst = appendFarDate(dst, days)
		b = b[10:]
	}
	t := b[len(b)-10:]
	seconds := micros / microsPerSecond
	t[0] = 'T'
	put2(t[1:], seconds/3600)
	t[3] = ':'
	put2(t[4:], seconds/60%60)
	t[6] = ':'
	put2(t[7:], seconds%60)
	t[9] = 'Z'
	fraction := micros - seconds*microsPerSecond
	if fraction == 0 {
		return append(dst, b...)
	}
	dst = append(dst, b[:len(b)-1]...)
	return append(appendMicros(dst, fraction), 'Z')
}

// appendMicros appends a point and the digits of micros / 10^6, which is more than 0 and less than 1,
// without trailing zeros.
func appendMicros(dst []byte, micros int64) []byte {
	k := 6
	for micros%10 == 0 {
		micros /= 10
		k--
	}
	dst = append(dst, ".000000"[:k+1]...)
	for i := len(dst) - 1; micros > 0; i-- {
		dst[i] = byte('0' + micros%10)
		micros /= 10
	}
	return dst
}

// appendFarDate appends a date that has no four-digit year.
func appendFarDate(dst []byte, days int64) []byte {
	const cycle = 146097 // days in 400 years
	cycles := days/cycle - 1
	y, m, d := civilFromDays(days - cycles*cycle)
	y += cycles * 400
	if y < 0 {
		dst = append(dst, '-')
		y = -y
	}
	for p := int64(1000); p > y && p > 1; p /= 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, y, 10)
	return append(dst, '-', byte('0'+m/10), byte('0'+m%10), '-', byte('0'+d/10), byte('0'+d%10))
}

const digitPairs = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849" +
	"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

// put2 writes the two digits of v, which is less than 100.
func put2(b []byte, v int64) {
	_ = b[1]
	b[0], b[1] = digitPairs[v*2], digitPairs[v*2+1]
}
