package expr

import "math"

// The loops below take four values a turn, so that what finds faults is not one long chain of additions.

// floats computes dst = x op y and reports whether a result is infinite or not a number; anything
// divided by zero is. The difference of such a value and itself is no number, of others it is zero.
func floats(o op, dst, x, y []float64) bool {
	dst, y = dst[:len(x)], y[:len(x)]
	bad := 0.0
	i := 0
	switch o {
	case opAdd:
		for ; i < len(x)-3; i += 4 {
			v0, v1, v2, v3 := x[i]+y[i], x[i+1]+y[i+1], x[i+2]+y[i+2], x[i+3]+y[i+3]
			dst[i], dst[i+1], dst[i+2], dst[i+3] = v0, v1, v2, v3
			bad += v0 - v0 + (v1 - v1) + (v2 - v2 + (v3 - v3))
		}
	case opSubtract:
		for ; i < len(x)-3; i += 4 {
			v0, v1, v2, v3 := x[i]-y[i], x[i+1]-y[i+1], x[i+2]-y[i+2], x[i+3]-y[i+3]
			dst[i], dst[i+1], dst[i+2], dst[i+3] = v0, v1, v2, v3
			bad += v0 - v0 + (v1 - v1) + (v2 - v2 + (v3 - v3))
		}
	case opMultiply:
		for ; i < len(x)-3; i += 4 {
			v0, v1, v2, v3 := x[i]*y[i], x[i+1]*y[i+1], x[i+2]*y[i+2], x[i+3]*y[i+3]
			dst[i], dst[i+1], dst[i+2], dst[i+3] = v0, v1, v2, v3
			bad += v0 - v0 + (v1 - v1) + (v2 - v2 + (v3 - v3))
		}
	case opDivide:
		for ; i < len(x)-3; i += 4 {
			v0, v1, v2, v3 := x[i]/y[i], x[i+1]/y[i+1], x[i+2]/y[i+2], x[i+3]/y[i+3]
			dst[i], dst[i+1], dst[i+2], dst[i+3] = v0, v1, v2, v3
			bad += v0 - v0 + (v1 - v1) + (v2 - v2 + (v3 - v3))
		}
	}
	for ; i < len(x); i++ {
		v := floatOp(o, x[i], y[i])
		dst[i] = v
		bad += v - v
	}
	return bad != 0
}

func floatOp(o op, a, b float64) float64 {
	switch o {
	case opAdd:
		return a + b
	case opSubtract:
		return a - b
	case opMultiply:
		return a * b
	case opDivide:
		return a / b
	}
	return math.Mod(a, b)
}

// floatsConstant is floats with a constant y.
func floatsConstant(o op, dst, x []float64, c float64) bool {
	dst = dst[:len(x)]
	bad := 0.0
	i := 0
	switch o {
	case opAdd, opSubtract:
		add := c
		if o == opSubtract {
			add = -c
		}
		for ; i < len(x)-3; i += 4 {
			v0, v1, v2, v3 := x[i]+add, x[i+1]+add, x[i+2]+add, x[i+3]+add
			dst[i], dst[i+1], dst[i+2], dst[i+3] = v0, v1, v2, v3
			bad += v0 - v0 + (v1 - v1) + (v2 - v2 + (v3 - v3))
		}
	case opMultiply:
		for ; i < len(x)-3; i += 4 {
			v0, v1, v2, v3 := x[i]*c, x[i+1]*c, x[i+2]*c, x[i+3]*c
			dst[i], dst[i+1], dst[i+2], dst[i+3] = v0, v1, v2, v3
			bad += v0 - v0 + (v1 - v1) + (v2 - v2 + (v3 - v3))
		}
	case opDivide:
		for ; i < len(x)-3; i += 4 {
			v0, v1, v2, v3 := x[i]/c, x[i+1]/c, x[i+2]/c, x[i+3]/c
			dst[i], dst[i+1], dst[i+2], dst[i+3] = v0, v1, v2, v3
			bad += v0 - v0 + (v1 - v1) + (v2 - v2 + (v3 - v3))
		}
	}
	for ; i < len(x); i++ {
		v := floatOp(o, x[i], c)
		dst[i] = v
		bad += v - v
	}
	return bad != 0
}

// multiplyAddFloats computes dst = x * c + y, each operation rounded by itself, and reports whether a
// result is infinite or not a number.
func multiplyAddFloats(dst, x, y []float64, c float64) bool {
	dst, y = dst[:len(x)], y[:len(x)]
	bad := 0.0
	i := 0
	for ; i < len(x)-3; i += 4 {
		v0, v1, v2, v3 := float64(x[i]*c)+y[i], float64(x[i+1]*c)+y[i+1], float64(x[i+2]*c)+y[i+2], float64(x[i+3]*c)+y[i+3]
		dst[i], dst[i+1], dst[i+2], dst[i+3] = v0, v1, v2, v3
		bad += v0 - v0 + (v1 - v1) + (v2 - v2 + (v3 - v3))
	}
	for ; i < len(x); i++ {
		v := float64(x[i]*c) + y[i]
		dst[i] = v
		bad += v - v
	}
	return bad != 0
}
