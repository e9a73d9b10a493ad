package expr

import (
	"math"
	"math/bits"
)

// Where it costs less, a kernel does not find out whether something overflows but whether the operands
// are so large that something may: x + 2^k has no bit above k only if x lies in [-2^k, 2^k).

// ints computes dst = x op y and reports whether a row may be at fault.
func ints(o op, dst, x, y []int64) bool {
	switch o {
	case opAdd:
		return addInts(dst, x, y)
	case opSubtract:
		return subtractInts(dst, x, y)
	case opMultiply:
		return multiplyInts(dst, x, y)
	}
	dst, y = dst[:len(x)], y[:len(x)]
	bad := false
	if o == opDivide {
		for i, a := range x {
			if b := y[i]; uint64(b)+1 > 1 {
				dst[i] = a / b
			} else { // 0 or -1
				dst[i], bad = -a, true
			}
		}
		return bad
	}
	for i, a := range x {
		if b := y[i]; uint64(b)+1 > 1 {
			dst[i] = a % b
		} else {
			dst[i], bad = 0, true
		}
	}
	return bad
}

func addInts(dst, x, y []int64) bool {
	dst, y = dst[:len(x)], y[:len(x)]
	var bad int64
	for i, a := range x {
		b := y[i]
		v := a + b
		dst[i] = v
		bad |= (a ^ v) & (b ^ v)
	}
	return bad < 0
}

func subtractInts(dst, x, y []int64) bool {
	dst, y = dst[:len(x)], y[:len(x)]
	var bad int64
	for i, a := range x {
		b := y[i]
		v := a - b
		dst[i] = v
		bad |= (a ^ b) & (a ^ v)
	}
	return bad < 0
}

func multiplyInts(dst, x, y []int64) bool {
	dst, y = dst[:len(x)], y[:len(x)]
	var large uint64
	for i, a := range x {
		b := y[i]
		dst[i] = a * b
		large |= uint64(a+1<<31) | uint64(b+1<<31)
	}
	if large>>32 == 0 {
		return false
	}
	for i, a := range x {
		if mulOverflows(a, y[i]) {
			return true
		}
	}
	return false
}

// intsConstant computes dst = x op c and reports whether a row may be at fault.
func intsConstant(o op, dst, x []int64, c int64) bool {
	dst = dst[:len(x)]
	switch o {
	case opAdd:
		return addConstant(dst, x, c)
	case opMultiply:
		return multiplyConstant(dst, x, c)
	case opSubtract:
		if c != math.MinInt64 {
			return addConstant(dst, x, -c)
		}
		for i, a := range x {
			dst[i] = a - c
		}
		return true
	case opDivide:
		if uint64(c)+1 > 1 {
			for i, a := range x {
				dst[i] = a / c
			}
			return false
		}
		for i, a := range x {
			dst[i] = -a
		}
		return true
	}
	if uint64(c)+1 > 1 {
		for i, a := range x {
			dst[i] = a % c
		}
		return false
	}
	clear(dst)
	return c == 0
}

func addConstant(dst, x []int64, c int64) bool {
	dst = dst[:len(x)]
	var bad int64
	for i, a := range x {
		v := a + c
		dst[i] = v
		bad |= (a ^ v) & (c ^ v)
	}
	return bad < 0
}

// safeBits is the largest k for which a value in [-2^k, 2^k) times c stays in [-2^62, 2^62]; -1 if there is
// none.
func safeBits(c int64) int {
	if c < 0 {
		c = -c
	}
	if c <= 0 || c > 1<<62 { // 0, or the least int, which has no negative
		return truth(c == 0)*63 - 1
	}
	return 62 - bits.Len64(uint64(c)-1)
}

func multiplyConstant(dst, x []int64, c int64) bool {
	dst = dst[:len(x)]
	k := safeBits(c)
	half := int64(0)
	if k >= 0 {
		half = 1 << uint(k)
	}
	var large uint64
	for i, a := range x {
		dst[i] = a * c
		large |= uint64(a + half)
	}
	return k < 0 || large>>(uint(k)+1) != 0
}

// multiplyAddInts computes dst = x * c + y and reports whether something may overflow; c must have
// safeBits k. It asks more of y than it must, to do with one constant for x and y.
func multiplyAddInts(dst, x, y []int64, c int64, k int) bool {
	dst, y = dst[:len(x)], y[:len(x)]
	var largeX, largeY int64
	half := int64(1) << uint(k)
	i := 0
	for ; i < len(x)-1; i += 2 { // two a turn leave less to the loop's own work
		a, b := x[i], y[i]
		dst[i] = a*c + b
		largeX |= a + half
		largeY |= b + half
		a, b = x[i+1], y[i+1]
		dst[i+1] = a*c + b
		largeX |= a + half
		largeY |= b + half
	}
	for ; i < len(x); i++ {
		dst[i] = x[i]*c + y[i]
		largeX |= x[i] + half
		largeY |= y[i] + half
	}
	return uint64(largeX|largeY)>>(uint(k)+1) != 0
}
