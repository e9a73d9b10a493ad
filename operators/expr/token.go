package expr

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	endToken      tokenKind = iota
	nameToken               // text is the name as written
	quotedToken             // text is the name without its quotes
	intToken                // 12
	decimalToken            // 1.5
	floatToken              // 1e3
	durationToken           // 5m
	stringToken             // text is the value
	symbolToken             // an operator or punctuation
)

type token struct {
	kind tokenKind
	span
	text string
}

// is reports whether t is the keyword, which is in upper case. Quoted names are not keywords.
func (t token) is(keyword string) bool {
	return t.kind == nameToken && len(t.text) == len(keyword) && strings.EqualFold(t.text, keyword)
}

func (t token) isSymbol(s string) bool { return t.kind == symbolToken && t.text == s }

// describe names a token in a message.
func (t token) describe(source string) string {
	if t.kind == endToken {
		return "the end"
	}
	return quote(source, t.span)
}

// reserved are the words that cannot be names without quotes. The other keywords only have their
// meaning where a name cannot stand.
var reserved = map[string]bool{
	"AND": true, "OR": true, "NOT": true, "IS": true, "NULL": true, "TRUE": true, "FALSE": true,
	"IN": true, "BETWEEN": true, "LIKE": true, "CASE": true, "WHEN": true, "THEN": true, "ELSE": true,
	"AS": true, "DISTINCT": true,
}

func isReserved(name string) bool { return len(name) <= 8 && reserved[strings.ToUpper(name)] }

var symbols = []string{"<=", ">=", "<>", "!=", "||", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",", "."}

// scan cuts text into tokens; the last one is an endToken. It stops at the first fault.
func scan(text string) ([]token, *Error) {
	if !utf8.ValidString(text) {
		return nil, &Error{Message: "the text is not valid UTF-8"}
	}
	var tokens []token
	for pos := 0; ; {
		for pos < len(text) && strings.IndexByte(" \t\r\n", text[pos]) >= 0 {
			pos++
		}
		if pos == len(text) {
			return append(tokens, token{endToken, span{pos, pos}, ""}), nil
		}
		t, err := scanOne(text, pos)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		pos = t.end
	}
}

func scanOne(text string, pos int) (token, *Error) {
	c := text[pos]
	switch {
	case c == '\'' || c == '"':
		return scanQuoted(text, pos)
	case isDigit(c) || c == '.' && pos+1 < len(text) && isDigit(text[pos+1]):
		return scanNumber(text, pos)
	}
	if end := nameEnd(text, pos); end > pos {
		return token{nameToken, span{pos, end}, text[pos:end]}, nil
	}
	for _, s := range symbols {
		if strings.HasPrefix(text[pos:], s) {
			return token{symbolToken, span{pos, pos + len(s)}, s}, nil
		}
	}
	r, _ := utf8.DecodeRuneInString(text[pos:])
	return token{}, &Error{Offset: pos, Message: fmt.Sprintf("unexpected character %q", r)}
}

// scanQuoted reads 'text' or "name"; a doubled quote stands for one.
func scanQuoted(text string, pos int) (token, *Error) {
	q := text[pos]
	var value strings.Builder
	for i := pos + 1; i < len(text); i++ {
		if text[i] != q {
			value.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == q {
			value.WriteByte(q)
			i++
			continue
		}
		t := token{stringToken, span{pos, i + 1}, value.String()}
		if q == '"' {
			t.kind = quotedToken
			if t.text == "" {
				return t, &Error{Offset: pos, Message: "a quoted name is empty"}
			}
		}
		return t, nil
	}
	return token{}, &Error{Offset: pos, Message: fmt.Sprintf("a closing %c is missing", q)}
}

// scanNumber reads a number, or a duration, which is a number with letters behind it.
func scanNumber(text string, pos int) (token, *Error) {
	kind, end := intToken, digitsEnd(text, pos)
	if end+1 < len(text) && text[end] == '.' && isDigit(text[end+1]) {
		kind, end = decimalToken, digitsEnd(text, end+1)
	}
	if end < len(text) && text[end]|0x20 == 'e' {
		exp := end + 1
		if exp < len(text) && (text[exp] == '+' || text[exp] == '-') {
			exp++
		}
		if e := digitsEnd(text, exp); e > exp {
			kind, end = floatToken, e
		}
	}
	if tail := nameEnd(text, end); tail > end {
		if kind == floatToken {
			return token{}, badNumber(text, pos, tail)
		}
		kind = durationToken
		end = durationEnd(text, tail)
	}
	if end < len(text) && text[end] == '.' {
		return token{}, badNumber(text, pos, end+1)
	}
	return token{kind, span{pos, end}, text[pos:end]}, nil
}

func badNumber(text string, pos, end int) *Error {
	return &Error{Offset: pos, Message: "malformed number " + quote(text, span{pos, end})}
}

// durationEnd goes on through the rest of a duration of several parts, such as 1h2m3.5s, where the
// letters end at pos. A part after a point is the only one that nameEnd does not swallow.
func durationEnd(text string, pos int) int {
	for pos+1 < len(text) && text[pos] == '.' && isDigit(text[pos-1]) && isDigit(text[pos+1]) {
		pos = nameEnd(text, digitsEnd(text, pos+1))
	}
	return pos
}

func digitsEnd(text string, pos int) int {
	for pos < len(text) && isDigit(text[pos]) {
		pos++
	}
	return pos
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// nameEnd returns where the name that starts at pos ends, pos if there is none. After its first
// character a name may hold digits; a caller that has read digits already gets the rest of the word.
func nameEnd(text string, pos int) int {
	for i, r := range text[pos:] {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return pos + i
		}
	}
	return len(text)
}
