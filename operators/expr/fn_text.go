package expr

import (
	"bytes"
	"math"
	"regexp"
	"unicode"
	"unicode/utf8"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

func textFunctions() []*function {
	text, integer := dataflow.StringType, dataflow.IntType
	trim := func(name, doc string, left, right bool) *function {
		return &function{name: name, signatures: []string{name + "(string[, characters string]) string"}, doc: doc,
			check: checkTrim, value: textRows(trimRow(left, right))}
	}
	return []*function{
		{name: "lower", signatures: []string{"lower(string) string"}, doc: "The text in lower case.", fails: true,
			check: takes(1, text, text), value: textRows(caseRow(unicode.ToLower, 'A'))},
		{name: "upper", signatures: []string{"upper(string) string"}, doc: "The text in upper case.", fails: true,
			check: takes(1, text, text), value: textRows(caseRow(unicode.ToUpper, 'a'))},
		{name: "length", signatures: []string{"length(string) int", "length(bytes) int"},
			doc: "The number of characters, or of bytes.", check: checkLength, value: fixedRows(lengthRow)},
		{name: "substring", signatures: []string{"substring(string, start int[, length int]) string", "substring(bytes, start int[, length int]) bytes", "substring(string FROM start [FOR length]) string"},
			doc:   "The characters (or bytes) from the given one on, counted from 1; as many as length says, if it is given. What lies outside the text is left out. A negative length is a row error.",
			fails: true, check: checkSubstring, value: textRows(substringRow)},
		trim("trim", "The text without the given characters, spaces if they are left out, at both ends. Also written trim([LEADING | TRAILING | BOTH] [characters] FROM string).", true, true),
		trim("ltrim", "trim at the start only.", true, false),
		trim("rtrim", "trim at the end only.", false, true),
		{name: "replace", signatures: []string{"replace(string, from string, to string) string"},
			doc: "The text with every occurrence of from replaced by to; unchanged if from is empty.", fails: true,
			check: takes(3, text, text, text, text), value: textRows(replaceRow)},
		{name: "position", signatures: []string{"position(part string, string) int", "position(part IN string) int"},
			doc: "Where the part first stands in the text, counted in characters from 1; 0 if it does not. Note the order of the arguments.", check: takes(2, integer, text, text), value: fixedRows(positionRow)},
		{name: "starts_with", signatures: []string{"starts_with(string, prefix string) bool"}, doc: "Whether the text starts with the prefix.",
			check: takes(2, dataflow.BoolType, text, text), test: testRows(func() testRow { return startsRow })},
		{name: "ends_with", signatures: []string{"ends_with(string, suffix string) bool"}, doc: "Whether the text ends with the suffix.",
			check: takes(2, dataflow.BoolType, text, text), test: testRows(func() testRow { return endsRow })},
		{name: "regexp_like", signatures: []string{"regexp_like(string, pattern string) bool"},
			doc:   "Whether the regular expression (RE2 syntax) matches a part of the text; ^ and $ tie it to the ends. A pattern that is not a constant and wrong is a row error.",
			fails: true, check: checkRegexp, test: testRows(newRegexpRow)},
		{name: "split_part", signatures: []string{"split_part(string, separator string, n int) string"},
			doc:   "The n-th part of the text between separators, counted from 1, or for a negative n from the end; empty if there is none. With an empty separator the text is one part. 0 is a row error.",
			fails: true, check: takes(3, text, text, text, integer), value: textRows(splitRow)},
		{name: "concat", signatures: []string{"concat(any, ...) string"},
			doc:   "The texts of all arguments one after the other, as CAST gives them; NULL counts as empty, and the result is never NULL.",
			fails: true, check: checkConcat, value: textRows(concatRow)},
	}
}

func checkLength(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) != 1 || !isText(args[0].typ) && args[0].typ.Kind != dataflow.Null {
		return c.badCall(n, f, args)
	}
	if args[0].typ.Kind == dataflow.Null {
		args[0] = c.convert(args[0], dataflow.StringType)
	}
	return f.strictCall(n, dataflow.IntType, args)
}

func checkSubstring(c *checker, n *call, f *function, args []*typed) *typed {
	t := dataflow.StringType
	if len(args) > 0 && args[0].typ.Kind == dataflow.Bytes {
		t = dataflow.BytesType
	}
	return takes(2, t, t, dataflow.IntType, dataflow.IntType)(c, n, f, args)
}

func checkTrim(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) == 1 {
		args = append(args, constant(span{n.end, n.end}, dataflow.StringType, scalar{s: " "}))
	}
	return takes(2, dataflow.StringType, dataflow.StringType, dataflow.StringType)(c, n, f, args)
}

func checkRegexp(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) == 2 && args[1].isConstant() && args[1].typ.Kind == dataflow.String && !args[1].val.null {
		if _, err := regexp.Compile(args[1].val.s); err != nil {
			return c.errorf(args[1].span, "%s", err)
		}
	}
	return takes(2, dataflow.BoolType, dataflow.StringType, dataflow.StringType)(c, n, f, args)
}

// checkConcat makes text of all arguments, and the empty text of NULL.
func checkConcat(c *checker, n *call, f *function, args []*typed) *typed {
	if len(args) == 0 {
		return c.badCall(n, f, args)
	}
	for i, a := range args {
		a = c.cast(a.span, a, dataflow.StringType)
		if a.nullable {
			empty := constant(a.span, dataflow.StringType, scalar{})
			a = settle(&typed{span: a.span, op: opCall, fn: functionNamed("coalesce"), typ: dataflow.StringType, args: []*typed{a, empty}})
		}
		args[i] = a
	}
	return f.strictCall(n, dataflow.StringType, args)
}

func concatRow(dst []byte, args []*batch.Vector, i int) ([]byte, string) {
	for _, a := range args {
		if dst = append(dst, a.Bytes(i)...); len(dst) > maxVectorText {
			return dst, textTooLong
		}
	}
	return dst, ""
}

// caseRow changes the case of letters; from is the first of the 26 that change by flipping a bit.
func caseRow(change func(rune) rune, from byte) textRow {
	return func(dst []byte, args []*batch.Vector, i int) ([]byte, string) {
		s := args[0].Bytes(i)
		for k := 0; k < len(s); k++ {
			c := s[k]
			if c >= utf8.RuneSelf {
				return changeRunes(dst, s[k:], change), ""
			}
			if c-from < 26 {
				c ^= 0x20
			}
			dst = append(dst, c)
		}
		return dst, ""
	}
}

func changeRunes(dst, s []byte, change func(rune) rune) []byte {
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[0])
		} else {
			dst = utf8.AppendRune(dst, change(r))
		}
		s = s[size:]
	}
	return dst
}

func lengthRow(out *batch.Vector, args []*batch.Vector, i int) string {
	s := args[0].Bytes(i)
	out.Ints[i] = int64(len(s))
	if args[0].Type.Kind == dataflow.String {
		out.Ints[i] = int64(utf8.RuneCount(s))
	}
	return ""
}

func substringRow(dst []byte, args []*batch.Vector, i int) ([]byte, string) {
	s, from, to := args[0].Bytes(i), args[1].Ints[i], int64(len(args[0].Bytes(i)))+1
	if len(args) == 3 {
		n := args[2].Ints[i]
		if n < 0 {
			return dst, "negative length"
		}
		if from <= math.MaxInt64-n {
			to = min(to, from+n)
		}
	}
	from = max(from, 1)
	if to <= from {
		return dst, ""
	}
	if args[0].Type.Kind == dataflow.Bytes {
		if from > int64(len(s)) {
			return dst, ""
		}
		return append(dst, s[from-1:to-1]...), ""
	}
	start := skipCharacters(s, from-1)
	return append(dst, s[start:start+skipCharacters(s[start:], to-from)]...), ""
}

// skipCharacters returns where the first n characters of s end.
func skipCharacters(s []byte, n int64) int {
	pos := 0
	for ; n > 0 && pos < len(s); n-- {
		if s[pos] < utf8.RuneSelf {
			pos++
			continue
		}
		_, size := utf8.DecodeRune(s[pos:])
		pos += size
	}
	return pos
}

func trimRow(left, right bool) textRow {
	return func(dst []byte, args []*batch.Vector, i int) ([]byte, string) {
		s, set := args[0].Bytes(i), args[1].Bytes(i)
		for left && len(s) > 0 {
			_, size := utf8.DecodeRune(s)
			if !hasCharacter(set, s[:size]) {
				break
			}
			s = s[size:]
		}
		for right && len(s) > 0 {
			_, size := utf8.DecodeLastRune(s)
			if !hasCharacter(set, s[len(s)-size:]) {
				break
			}
			s = s[:len(s)-size]
		}
		return append(dst, s...), ""
	}
}

// hasCharacter reports whether the character c is one of the set. No character is part of another one.
func hasCharacter(set, c []byte) bool { return bytes.Contains(set, c) }

func replaceRow(dst []byte, args []*batch.Vector, i int) ([]byte, string) {
	s, from, to := args[0].Bytes(i), args[1].Bytes(i), args[2].Bytes(i)
	if len(from) == 0 {
		return append(dst, s...), ""
	}
	for {
		at := bytes.Index(s, from)
		if at < 0 {
			return append(dst, s...), ""
		}
		dst = append(append(dst, s[:at]...), to...)
		if s = s[at+len(from):]; len(dst) > maxVectorText {
			return dst, textTooLong
		}
	}
}

func positionRow(out *batch.Vector, args []*batch.Vector, i int) string {
	s := args[1].Bytes(i)
	at := bytes.Index(s, args[0].Bytes(i))
	if out.Ints[i] = 0; at >= 0 {
		out.Ints[i] = int64(utf8.RuneCount(s[:at])) + 1
	}
	return ""
}

func startsRow(args []*batch.Vector, i int) (bool, string) {
	return bytes.HasPrefix(args[0].Bytes(i), args[1].Bytes(i)), ""
}

func endsRow(args []*batch.Vector, i int) (bool, string) {
	return bytes.HasSuffix(args[0].Bytes(i), args[1].Bytes(i)), ""
}

// newRegexpRow matches regular expressions; it keeps the last one, so that a constant is compiled once.
func newRegexpRow() testRow {
	last, compiled := "", (*regexp.Regexp)(nil)
	var err error
	return func(args []*batch.Vector, i int) (bool, string) {
		if p := args[1].Bytes(i); last != string(p) || compiled == nil && err == nil {
			last = string(p)
			compiled, err = regexp.Compile(last)
		}
		if err != nil {
			return false, err.Error()
		}
		return compiled.Match(args[0].Bytes(i)), ""
	}
}

func splitRow(dst []byte, args []*batch.Vector, i int) ([]byte, string) {
	s, sep, n := args[0].Bytes(i), args[1].Bytes(i), args[2].Ints[i]
	if n == 0 {
		return dst, "part 0"
	}
	if len(sep) == 0 {
		if n == 1 || n == -1 {
			dst = append(dst, s...)
		}
		return dst, ""
	}
	if n < 0 { // the parts are those that are found from the left
		n += int64(bytes.Count(s, sep)) + 2
	}
	if n <= 0 {
		return dst, ""
	}
	for ; n > 1; n-- {
		at := bytes.Index(s, sep)
		if at < 0 {
			return dst, ""
		}
		s = s[at+len(sep):]
	}
	part, _, _ := bytes.Cut(s, sep)
	return append(dst, part...), ""
}
