package file

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNDJSONDepth is how deep a value that is passed over may be nested.
const maxNDJSONDepth = 1000

// text reads the JSON string at pos. The result may be in memory that the next call uses again.
func (r *ndjsonRows) text() ([]byte, bool) {
	data := r.data
	start, escape := r.pos+1, 0 // escape is the first backslash
	for i := start; ; {
		// The lowest top bit that is left marks the first quote, backslash or control character.
		x := binary.LittleEndian.Uint64(data[i:])
		q, b := x^'"'*everyOne, x^'\\'*everyOne
		found := ((q-everyOne)&^q | (b-everyOne)&^b | (x-0x20*everyOne)&^x) & topBits
		if found == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(found) / 8
		switch c := data[i]; {
		case c == '"' && escape == 0:
			r.pos = i + 1
			return data[start:i], true
		case c == '"':
			r.pos = i + 1
			return r.unescape(data[start:i], escape-start)
		case c == '\\' && data[i+1] >= 0x20:
			if escape == 0 {
				escape = i
			}
			i += 2
		case c == '\n' || c == '\\' && data[i+1] == '\n' || c == '\r' && data[i+1] == '\n':
			return nil, r.fail("a string is not closed")
		default:
			return nil, r.fail("a string has a control character that is not escaped")
		}
	}
}

// unescape resolves the escapes of s, of which the first is at i.
func (r *ndjsonRows) unescape(s []byte, i int) ([]byte, bool) {
	dst := append(r.scratch[:0], s[:i]...)
	for i < len(s) {
		c := s[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		c = s[i+1] // a string does not end in a lone backslash
		i += 2
		switch c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			v, n := unicodeEscape(s[i:])
			if n == 0 {
				return nil, r.fail("a string has an escape that JSON does not have, or half of a surrogate pair")
			}
			dst = utf8.AppendRune(dst, v)
			i += n
		default:
			return nil, r.fail(`a string has the escape \%c, which JSON does not have`, c)
		}
	}
	r.scratch = dst
	return dst, true
}

// unicodeEscape reads what follows \u: four hexadecimal digits, or a surrogate pair with the second \u.
// It returns the number of bytes, 0 if they are not right.
func unicodeEscape(s []byte) (rune, int) {
	high, ok := fourHex(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(high) {
		return high, 4
	}
	if len(s) < 10 || s[4] != '\\' || s[5] != 'u' {
		return 0, 0
	}
	low, ok := fourHex(s[6:])
	if !ok {
		return 0, 0
	}
	v := utf16.DecodeRune(high, low)
	if v == utf8.RuneError {
		return 0, 0
	}
	return v, 10
}

func fourHex(s []byte) (v rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, c := range s[:4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | rune(c)
	}
	return v, true
}

// number reads the JSON number at pos.
func (r *ndjsonRows) number() ([]byte, bool) {
	data, i := r.data, r.pos
	if data[i] == '-' {
		i++
	}
	first := i
	for data[i]-'0' <= 9 {
		i++
	}
	ok := i > first && (data[first] != '0' || i == first+1)
	if data[i] == '.' {
		i++
		digit := i
		for data[i]-'0' <= 9 {
			i++
		}
		ok = ok && i > digit
	}
	if data[i]|0x20 == 'e' {
		i++
		if data[i] == '+' || data[i] == '-' {
			i++
		}
		digit := i
		for data[i]-'0' <= 9 {
			i++
		}
		ok = ok && i > digit
	}
	text := data[r.pos:i]
	if !ok {
		return nil, r.fail("%s is not a JSON number", text[:min(len(text), 100)])
	}
	r.pos = i
	return text, true
}

// literal reads true, false or null.
func (r *ndjsonRows) literal(word string) bool {
	for i := range len(word) {
		if r.data[r.pos+i] != word[i] { // a line feed stops it at the latest
			return r.unexpected("a value")
		}
	}
	r.pos += len(word)
	return true
}

// skip passes over the value at pos, which may hold others depth deep.
func (r *ndjsonRows) skip(depth int) bool {
	switch c := r.data[r.pos]; {
	case c == '"':
		_, ok := r.text()
		return ok
	case c == '-' || c-'0' <= 9:
		_, ok := r.number()
		return ok
	case c == 't':
		return r.literal("true")
	case c == 'f':
		return r.literal("false")
	case c == 'n':
		return r.literal("null")
	case c == '{' || c == '[':
		if depth == 0 {
			return r.fail("the row is nested more than %d deep", maxNDJSONDepth)
		}
		return r.skipNested(depth-1, c == '{')
	}
	return r.unexpected("a value")
}

// skipNested passes over the object or array at pos.
func (r *ndjsonRows) skipNested(depth int, object bool) bool {
	closing, wanted := byte(']'), "a comma or ]"
	if object {
		closing, wanted = '}', "a comma or }"
	}
	r.pos++
	if r.space() == closing {
		r.pos++
		return true
	}
	for {
		if object {
			if r.data[r.pos] != '"' {
				return r.unexpected("a name in quotes")
			}
			if _, ok := r.text(); !ok {
				return false
			}
			if r.space() != ':' {
				return r.unexpected("a colon")
			}
			r.pos++
			r.space()
		}
		if !r.skip(depth) {
			return false
		}
		switch r.space() {
		case closing:
			r.pos++
			return true
		case ',':
			r.pos++
			r.space()
		default:
			return r.unexpected(wanted)
		}
	}
}
