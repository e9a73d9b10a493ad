package batch

import "math/bits"

// Bitmap is a packed array of bits, bit i in word i/64 at 1<<(i%64). On a little-endian machine its
// bytes are an Arrow bitmap. Bits beyond the length in use are undefined. As a validity bitmap, nil
// means that every row is valid.
type Bitmap []uint64

// Words is the number of words that n bits need.
func Words(n int) int { return (n + 63) / 64 }

// Get returns bit i.
func (m Bitmap) Get(i int) bool { return m[uint(i)/64]>>(uint(i)%64)&1 != 0 }

// Set sets bit i.
func (m Bitmap) Set(i int) { m[uint(i)/64] |= 1 << (uint(i) % 64) }

// Clear clears bit i.
func (m Bitmap) Clear(i int) { m[uint(i)/64] &^= 1 << (uint(i) % 64) }

// SetTo sets bit i to v.
func (m Bitmap) SetTo(i int, v bool) {
	if v {
		m.Set(i)
	} else {
		m.Clear(i)
	}
}

// Fill sets the first n bits to v; bits above n in the last word too.
func (m Bitmap) Fill(n int, v bool) {
	var w uint64
	if v {
		w = ^uint64(0)
	}
	m = m[:Words(n)]
	for i := range m {
		m[i] = w
	}
}

// Count returns how many of the first n bits are set.
func (m Bitmap) Count(n int) int {
	c := 0
	for _, w := range m[:n/64] {
		c += bits.OnesCount64(w)
	}
	if r := uint(n) % 64; r != 0 {
		c += bits.OnesCount64(m[n/64] & (1<<r - 1))
	}
	return c
}

// GrowBitmap returns m with room for n bits, reusing its memory when it can. The contents are undefined.
func GrowBitmap(m Bitmap, n int) Bitmap {
	w := Words(n)
	if cap(m) < w {
		return make(Bitmap, w, w+w/4)
	}
	return m[:w]
}
