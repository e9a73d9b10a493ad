package naive

// resultType is the type of an operation on operands that the language allows for it.
func resultType(op string, args []*Node) Type {
	switch op {
	case "+", "-", "*", "/", "%":
		return arithmeticType(op, args[0].Type, args[1].Type)
	case "case":
		return commonOf(caseResults(args))
	case "case of":
		return commonOf(caseResults(args[1:]))
	case "coalesce()", "greatest()", "least()":
		return commonOf(args)
	}
	if levels[op] > 0 && levels[op] <= inLevel {
		return BoolType
	}
	return functionType(op, args)
}

// caseResults are the results among conditions and results.
func caseResults(args []*Node) []*Node {
	var results []*Node
	for ; len(args) >= 2; args = args[2:] {
		results = append(results, args[1])
	}
	return append(results, args...)
}

// commonOf is the type in which values of all these types fit together.
func commonOf(args []*Node) Type {
	t := NullType
	for _, a := range args {
		t = Common(t, a.Type)
	}
	return t
}

// Common is the type that values of both types take to stand in one column: numbers of different kinds
// become float if one of them is, else a decimal with room for both, as far as 38 digits go.
func Common(a, b Type) Type {
	switch {
	case a == b || b.Kind == Null:
		return a
	case a.Kind == Null:
		return b
	case a.Kind == Float || b.Kind == Float:
		return FloatType
	}
	a, b = decimalOf(a), decimalOf(b)
	return capped(max(a.whole(), b.whole()), max(a.Scale, b.Scale))
}

// decimalOf is the decimal that a number takes part in decimal arithmetic as: an int has 19 digits.
func decimalOf(t Type) Type {
	if t.Kind == Int {
		return DecimalType(19, 0)
	}
	return t
}

func (t Type) whole() int { return t.Precision - t.Scale }

// capped is a decimal with that many digits before and after the point, fewer before it if they are more
// than 38 together.
func capped(whole, scale int) Type { return DecimalType(max(1, min(38, whole+scale)), scale) }

func arithmeticType(op string, a, b Type) Type {
	number := func(t Type) bool { return t.Kind == Int || t.Kind == Float || t.Kind == Decimal }
	switch {
	case a.Kind == Timestamp && b.Kind == Timestamp:
		return DurationType
	case a.Kind == Timestamp || b.Kind == Timestamp:
		return TimestampType
	case a.Kind == Duration && b.Kind == Duration && op == "/":
		return FloatType
	case a.Kind == Duration || b.Kind == Duration:
		return DurationType
	case !number(a) || !number(b) || a.Kind == Float || b.Kind == Float:
		return FloatType
	case a.Kind == Int && b.Kind == Int:
		return IntType
	}
	a, b = decimalOf(a), decimalOf(b)
	scale := max(a.Scale, b.Scale)
	switch op {
	case "+", "-":
		return capped(max(a.whole(), b.whole())+1, scale)
	case "*":
		return capped(a.whole()+b.whole(), a.Scale+b.Scale)
	case "/":
		return capped(a.whole()+b.Scale, max(scale, 6))
	}
	return capped(max(a.whole(), b.whole()), scale)
}

// roundedType is the type of a rounded decimal: it has the digits that are left, and one more before
// the point for the carry. What has no more digits than asked for stays as it is.
func roundedType(op string, args []*Node) Type {
	t, digits := args[0].Type, int64(0)
	if op == "round()" && len(args) > 1 {
		digits = args[1].Value.Int
	}
	if op == "round()" && digits >= int64(t.Scale) {
		return t
	}
	return capped(t.whole()+1, int(max(0, digits)))
}
