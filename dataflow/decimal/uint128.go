package decimal

import "math/bits"

// uint128 is the unsigned integer hi*2^64 + lo. Pairs of them, high half first, are 256-bit integers.
type uint128 struct{ hi, lo uint64 }

// pow10 holds the powers of ten that a uint128 with the top bit clear can hold.
var pow10 = func() (p [MaxDigits + 1]uint128) {
	p[0] = uint128{0, 1}
	for i := 1; i < len(p); i++ {
		_, p[i] = mul(p[i-1], uint128{0, 10})
	}
	return p
}()

func less(a, b uint128) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func sub(a, b uint128) uint128 {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	return uint128{a.hi - b.hi - borrow, lo}
}

// mul returns the 256-bit product of a and b.
func mul(a, b uint128) (hi, lo uint128) {
	var carry uint64
	p0, l0 := bits.Mul64(a.lo, b.lo)
	x1, x0 := bits.Mul64(a.hi, b.lo)
	y1, y0 := bits.Mul64(a.lo, b.hi)
	h1, h0 := bits.Mul64(a.hi, b.hi)
	l1, carry := bits.Add64(p0, x0, 0)
	h0, carry = bits.Add64(h0, x1, carry)
	h1 += carry
	l1, carry = bits.Add64(l1, y0, 0)
	h0, carry = bits.Add64(h0, y1, carry)
	h1 += carry
	return uint128{h1, h0}, uint128{l1, l0}
}

// mulWide returns the 256-bit product of the 256-bit integer (hi, lo) and b, and whether it fits.
func mulWide(hi, lo, b uint128) (uint128, uint128, bool) {
	carry, low := mul(lo, b)
	over, high := mul(hi, b)
	l, c := bits.Add64(high.lo, carry.lo, 0)
	h, c := bits.Add64(high.hi, carry.hi, c)
	return uint128{h, l}, low, over == uint128{} && c == 0
}

// div divides the 256-bit integer (hi, lo) by d. hi must be less than d, so that the quotient fits.
func div(hi, lo, d uint128) (q, r uint128) {
	if d.hi == 0 {
		q1, rest := bits.Div64(hi.lo, lo.hi, d.lo)
		q0, rest := bits.Div64(rest, lo.lo, d.lo)
		return uint128{q1, q0}, uint128{0, rest}
	}
	s := uint(bits.LeadingZeros64(d.hi))
	d = shiftLeft(d, s)
	hi = shiftLeft(hi, s)
	hi.lo |= lo.hi >> (64 - s) // a shift by 64 gives 0
	lo = shiftLeft(lo, s)
	q1, r := divStep(hi, lo.hi, d)
	q0, r := divStep(r, lo.lo, d)
	return uint128{q1, q0}, uint128{r.hi >> s, r.lo>>s | r.hi<<(64-s)}
}

func shiftLeft(a uint128, s uint) uint128 {
	return uint128{a.hi<<s | a.lo>>(64-s), a.lo << s}
}

// divStep divides the 192-bit integer u*2^64 + u0 by d, whose top bit is set; u is less than d. It is
// one step of Knuth's algorithm D.
func divStep(u uint128, u0 uint64, d uint128) (q uint64, r uint128) {
	var rest, over uint64
	if u.hi < d.hi {
		q, rest = bits.Div64(u.hi, u.lo, d.hi)
	} else {
		q = ^uint64(0)
		rest, over = bits.Add64(u.lo, d.hi, 0)
	}
	p1, p0 := bits.Mul64(q, d.lo)
	for over == 0 && less(uint128{rest, u0}, uint128{p1, p0}) {
		q--
		rest, over = bits.Add64(rest, d.hi, 0)
		var borrow uint64
		p0, borrow = bits.Sub64(p0, d.lo, 0)
		p1 -= borrow
	}
	return q, sub(uint128{u.lo, u0}, uint128{q*d.hi + p1, p0})
}
