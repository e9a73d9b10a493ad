package expr

import (
	"encoding/binary"
	"math/bits"

	"github.com/zeebo/xxh3"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// KeyHasher hashes keys that have been computed, as the function hash does.
type KeyHasher struct{ buf []byte }

// Hash is the hash of row i of keys, which is the same in every process and release.
func (h *KeyHasher) Hash(keys []*batch.Vector, i int) int64 {
	h.buf = h.buf[:0]
	for _, v := range keys {
		h.buf = appendHashed(h.buf, v, i)
	}
	return int64(xxh3.Hash(h.buf))
}

// HashRows writes to out, by row, the hashes of the rows of keys that sel lists (nil: all).
func (h *KeyHasher) HashRows(keys []*batch.Vector, sel []int32, out []int64) {
	if len(keys) == 1 && keys[0].Valid == nil {
		switch v := keys[0]; v.Type.Kind {
		case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
			hashWords(v.Ints, byte(v.Type.Kind), sel, out)
			return
		case dataflow.String, dataflow.Bytes:
			h.hashTexts(v, sel, out)
			return
		}
	}
	if len(keys) == 2 && isWords(keys[0]) && isWords(keys[1]) {
		hashPairs(keys[0], keys[1], sel, out)
		return
	}
	for j := range count(len(out), sel) {
		i := int(rowAt(sel, j))
		out[i] = h.Hash(keys, i)
	}
}

// isWords reports whether v has a number of 64 bits in each row.
func isWords(v *batch.Vector) bool {
	switch v.Type.Kind {
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		return v.Valid == nil
	}
	return false
}

// hashPairs hashes two numbers of 64 bits, each behind the byte for its kind.
func hashPairs(a, b *batch.Vector, sel []int32, out []int64) {
	first, second := uint64(a.Type.Kind), uint64(b.Type.Kind)
	for j := range count(len(out), sel) {
		i := rowAt(sel, j)
		v, w := uint64(a.Ints[i]), uint64(b.Ints[i])
		out[i] = int64(hashMiddle(v<<8|first, v>>56|second<<8|w<<16, v>>8|second<<56, w, 18))
	}
}

// hashWords hashes numbers of 64 bits, each behind the byte for its kind.
func hashWords(vals []int64, kind byte, sel []int32, out []int64) {
	if sel == nil {
		vals = vals[:len(out)]
		for i, v := range vals {
			out[i] = HashWord(uint64(v), kind)
		}
		return
	}
	for _, i := range sel {
		out[i] = HashWord(uint64(vals[i]), kind)
	}
}

// HashWord is the hash of a key that is one int, timestamp or duration; kind is the kind of its type.
func HashWord(v uint64, kind byte) int64 { return int64(hashShort(v<<8|uint64(kind), v, 9)) }

// hashTexts hashes texts, each behind the byte for its kind and its length. Those of 4 to 27 bytes are read in words of
// eight bytes, into which the head is shifted.
func (h *KeyHasher) hashTexts(v *batch.Vector, sel []int32, out []int64) {
	const head = 5
	kind, data := uint64(v.Type.Kind), v.Data
	for j := range count(len(out), sel) {
		i := rowAt(sel, j)
		at, n := int(v.Offsets[i]), int(v.Offsets[i+1]-v.Offsets[i])
		if n < 4 || n > 27 || at+8 > len(data) {
			h.buf = appendHashed(h.buf[:0], v, int(i))
			out[i] = int64(xxh3.Hash(h.buf))
			continue
		}
		header, start := kind|uint64(n)<<8, binary.LittleEndian.Uint64(data[at:])
		first := header | start<<(8*head)
		if n < 8 {
			last := header>>(8*(n-3)) | start<<(8*(8-n))
			out[i] = int64(hashShort(first, last, uint64(head+n)))
			continue
		}
		last := binary.LittleEndian.Uint64(data[at+n-8:])
		if n < 12 {
			out[i] = int64(hashShort(first, last, uint64(head+n)))
			continue
		}
		next, before := binary.LittleEndian.Uint64(data[at+3:]), uint64(0)
		if n < 16 {
			before = header>>(8*(n-11)) | start<<(8*(16-n))
		} else {
			before = binary.LittleEndian.Uint64(data[at+n-16:])
		}
		out[i] = int64(hashMiddle(first, next, before, last, uint64(head+n)))
	}
}

// The constants of XXH3 that matter for 9 to 16 bytes: words of its secret, and the factor of its last step.
const (
	secretFirst = 0x1f67b3b7a4a44072 ^ 0x78e5c0cc4ee679cb
	secretLast  = 0x2172ffcc7dd05a82 ^ 0x8e2443f7744608b8
	lastFactor  = 0x165667919e3779f9
)

// hashShort is the 64-bit XXH3 of n bytes, 9 to 16: the first and the last eight of them are given.
func hashShort(first, last, n uint64) uint64 {
	first ^= secretFirst
	last ^= secretLast
	x := n + bits.ReverseBytes64(first) + last + mulFold(first, last)
	x ^= x >> 37
	x *= lastFactor
	return x ^ x>>32
}

// The constants of XXH3 that matter for 17 to 32 bytes: words of its secret, and the factor of the length.
const (
	secret0      = 0xbe4ba423396cfeb8
	secret1      = 0x1cad21f72c81017c
	secret2      = 0xdb979083e96dd4de
	secret3      = 0x1f67b3b7a4a44072
	lengthFactor = 0x9e3779b185ebca87
)

// hashMiddle is the 64-bit XXH3 of n bytes, 17 to 32: the first two and the last two words of them are given.
func hashMiddle(first, next, before, last, n uint64) uint64 {
	x := n*lengthFactor + mulFold(first^secret0, next^secret1) + mulFold(before^secret2, last^secret3)
	x ^= x >> 37
	x *= lastFactor
	return x ^ x>>32
}

func mulFold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// KeyGroup is the key group, from 0 to dataflow.KeyGroups-1, of the keys with a hash.
func KeyGroup(hash int64) int { return int(uint64(hash) % dataflow.KeyGroups) }
