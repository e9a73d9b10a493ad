package naive

import (
	"regexp"
	"strings"
)

func addText() {
	functions["lower()"] = func(_ *Node, a []Value) (Value, error) { return text(strings.ToLower(a[0].Text)), nil }
	functions["upper()"] = func(_ *Node, a []Value) (Value, error) { return text(strings.ToUpper(a[0].Text)), nil }
	functions["length()"] = length
	functions["substring()"] = substring
	functions["trim()"] = func(_ *Node, a []Value) (Value, error) {
		return text(strings.Trim(a[0].Text, cutset(a))), nil
	}
	functions["ltrim()"] = func(_ *Node, a []Value) (Value, error) {
		return text(strings.TrimLeft(a[0].Text, cutset(a))), nil
	}
	functions["rtrim()"] = func(_ *Node, a []Value) (Value, error) {
		return text(strings.TrimRight(a[0].Text, cutset(a))), nil
	}
	functions["replace()"] = replace
	functions["position()"] = position
	functions["starts_with()"] = func(_ *Node, a []Value) (Value, error) {
		return boolean(strings.HasPrefix(a[0].Text, a[1].Text)), nil
	}
	functions["ends_with()"] = func(_ *Node, a []Value) (Value, error) {
		return boolean(strings.HasSuffix(a[0].Text, a[1].Text)), nil
	}
	functions["regexp_like()"] = func(_ *Node, a []Value) (Value, error) {
		r, err := regexp.Compile(a[1].Text)
		if err != nil {
			return fail("%v", err)
		}
		return boolean(r.MatchString(a[0].Text)), nil
	}
	functions["split_part()"] = splitPart
}

// addLike adds LIKE and NOT LIKE.
func addLike() {
	functions["like"] = like
	functions["not like"] = func(n *Node, a []Value) (Value, error) { return not(like(n, a)) }
}

// like translates the pattern to a regular expression.
func like(_ *Node, a []Value) (Value, error) {
	escape := rune(-1)
	if len(a) > 2 {
		escape = []rune(a[2].Text)[0]
	}
	var form strings.Builder
	escaped := false
	for _, r := range a[1].Text {
		switch {
		case escaped:
			if r != '%' && r != '_' && r != escape {
				return fail("the escape character stands before %q", r)
			}
			form.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == escape:
			escaped = true
		case r == '%':
			form.WriteString(".*")
		case r == '_':
			form.WriteString(".")
		default:
			form.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	if escaped {
		return fail("the pattern ends with the escape character")
	}
	return boolean(regexp.MustCompile("^(?s:" + form.String() + ")$").MatchString(a[0].Text)), nil
}

// length counts characters, and bytes of bytes.
func length(n *Node, a []Value) (Value, error) {
	if n.Args[0].Type.Kind == Bytes {
		return Value{Int: int64(len(a[0].Text))}, nil
	}
	return Value{Int: int64(len([]rune(a[0].Text)))}, nil
}

// substring gives the characters (bytes of bytes) from position a[1] (the first is 1) on, at most up to
// before position a[1] + a[2]. Positions before the first hold nothing.
func substring(n *Node, a []Value) (Value, error) {
	parts, out := strings.Split(a[0].Text, ""), ""
	if n.Type.Kind == Bytes {
		parts = nil
		for i := range len(a[0].Text) {
			parts = append(parts, a[0].Text[i:i+1])
		}
	}
	for i, part := range parts {
		at := int64(i + 1)
		if at < a[1].Int {
			continue
		}
		// at - start, in unsigned numbers because it may exceed an int.
		if len(a) > 2 && uint64(at)-uint64(a[1].Int) >= uint64(max(a[2].Int, 0)) {
			continue
		}
		out += part
	}
	if len(a) > 2 && a[2].Int < 0 {
		return fail("substring of negative length")
	}
	return text(out), nil
}

func cutset(a []Value) string {
	if len(a) > 1 {
		return a[1].Text
	}
	return " "
}

// replace leaves the text alone if there is nothing to look for.
func replace(_ *Node, a []Value) (Value, error) {
	if a[1].Text == "" {
		return a[0], nil
	}
	return text(strings.ReplaceAll(a[0].Text, a[1].Text, a[2].Text)), nil
}

// position counts characters from 1; 0 says that a[0] is not in a[1].
func position(_ *Node, a []Value) (Value, error) {
	before, _, found := strings.Cut(a[1].Text, a[0].Text)
	if !found {
		return Value{}, nil
	}
	return Value{Int: int64(len([]rune(before)) + 1)}, nil
}

// splitPart counts parts from 1, or backwards from -1. A part that is not there is empty.
func splitPart(_ *Node, a []Value) (Value, error) {
	if a[2].Int == 0 {
		return fail("split_part has no part 0")
	}
	parts := []string{a[0].Text}
	if a[1].Text != "" {
		parts = strings.Split(a[0].Text, a[1].Text)
	}
	i := a[2].Int - 1
	if a[2].Int < 0 {
		i = int64(len(parts)) + a[2].Int
	}
	if i < 0 || i >= int64(len(parts)) {
		return text(""), nil
	}
	return text(parts[i]), nil
}
