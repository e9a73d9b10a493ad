package window

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/zeebo/xxh3"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// seed differs from process to process, so that nobody can prepare data that falls into one place of
// every table. No result depends on a hash: groups are kept in order of appearance.
var seed = rand.Uint64()

const (
	hashFactor  = 0x9E3779B97F4A7C15
	combineMask = 0xD6E8FEB86659FD93
)

// hashInt hashes 64 bits. Both halves of the result are good.
func hashInt(v uint64) uint64 {
	hi, lo := bits.Mul64(v^seed, hashFactor)
	return hi ^ lo
}

// combine adds the hash of one more value to h.
func combine(h, value uint64) uint64 {
	hi, lo := bits.Mul64(h^combineMask, value|1)
	return hi ^ lo ^ value
}

// tagOf is the part of a hash that an index keeps. It is never 0, so that no free entry looks right.
func tagOf(h uint64) uint32 { return uint32(h>>32) | 1<<31 }

// floatKey gives the bits that stand for a float as a key: one zero, one NaN.
func floatKey(f float64) uint64 {
	if f == 0 {
		return 0
	}
	if f != f {
		return nanBits
	}
	return math.Float64bits(f)
}

const nanBits = 0x7FF8000000000001

// hashColumns hashes the keys of the listed rows (nil: all) into h, by row.
func hashColumns(h []uint64, keys []*batch.Vector, rows []int32) {
	for i, k := range keys {
		hashColumn(h, k, rows, i == 0)
	}
}

// nullHash is the hash of NULL.
const nullHash = hashFactor

// hashColumn hashes the listed rows (nil: all) of v into h, by row. Unless it is the first column of a
// key, the hashes are combined with what h holds.
func hashColumn(h []uint64, v *batch.Vector, rows []int32, first bool) {
	n := len(rows)
	if rows == nil {
		n = v.Len
	}
	for i := range n {
		r := i
		if rows != nil {
			r = int(rows[i])
		}
		x := uint64(nullHash)
		if v.Valid == nil || v.Valid.Get(r) {
			x = hashValue(v, r)
		}
		if !first {
			x = combine(h[r], x)
		}
		h[r] = x
	}
}

// hashValue hashes the value of row r, which is not NULL.
func hashValue(v *batch.Vector, r int) uint64 {
	switch v.Type.Kind {
	case dataflow.String, dataflow.Bytes:
		return xxh3.HashSeed(v.Bytes(r), seed)
	case dataflow.Float:
		return hashInt(floatKey(v.Floats[r]))
	case dataflow.Decimal:
		d := v.Decimals[r]
		return combine(hashInt(d.Lo), hashInt(uint64(d.Hi)))
	case dataflow.Bool:
		if v.Bits.Get(r) {
			return hashInt(1)
		}
		return hashInt(0)
	}
	return hashInt(uint64(v.Ints[r]))
}
