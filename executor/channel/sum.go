package channel

import (
	"hash/crc32"
	"unsafe"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// rowSum is the running checksum of an epoch's rows. It depends on their values and order, not on how
// they were cut into frames: each column is one stream of values, of text bytes, of lengths and of bits.
// Watermarks are left out, since they depend on how a source cut its batches.
//
// It finds operators that are not deterministic. It does not keep out those who mean to deceive.
type rowSum struct {
	rows int64
	cols []columnSum
}

type columnSum struct {
	values  uint32 // CRC32C of the values, or of all text
	lengths uint64 // of text
	bits    bitSum // of a bool column
	valid   bitSum // of a column that may be NULL
}

// bitSum is the checksum of a stream of bits, taken in words.
type bitSum struct {
	sum     uint64
	pending uint64 // the last bits that fill no word
	n       uint   // how many those are, below 64
}

// step is odd, so that no bit of what was summed before is ever shifted out.
const step = 0x9E3779B97F4A7C15

func (s *rowSum) reset(columns int) {
	if cap(s.cols) < columns {
		s.cols = make([]columnSum, columns)
	}
	s.rows, s.cols = 0, s.cols[:columns]
	clear(s.cols)
}

// add adds the rows of a batch that has no selection, and zeros for NULLs as frames have.
func (s *rowSum) add(b *batch.Batch) {
	s.rows += int64(b.Len)
	for i := range b.Cols {
		s.cols[i].add(&b.Cols[i], b.Schema.Columns[i].Nullable)
	}
}

func (s *columnSum) add(v *batch.Vector, nullable bool) {
	if nullable {
		s.valid.add(v.Valid, v.Len)
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		s.bits.add(v.Bits, v.Len)
	case dataflow.Float:
		s.values = crc32.Update(s.values, castagnoli, bytesOf(v.Floats[:v.Len]))
	case dataflow.Decimal:
		s.values = crc32.Update(s.values, castagnoli, bytesOf(v.Decimals[:v.Len]))
	case dataflow.String, dataflow.Bytes:
		s.addText(v)
	default:
		s.values = crc32.Update(s.values, castagnoli, bytesOf(v.Ints[:v.Len]))
	}
}

func (s *columnSum) addText(v *batch.Vector) {
	offsets := v.Offsets[:v.Len+1]
	last, sum := offsets[0], s.lengths
	s.values = crc32.Update(s.values, castagnoli, v.Data[last:offsets[v.Len]])
	for _, o := range offsets[1:] {
		sum = sum*step + uint64(o-last)
		last = o
	}
	s.lengths = sum
}

// add adds the first n bits of m; nil has ones.
func (s *bitSum) add(m batch.Bitmap, n int) {
	for at := 0; at < n; at += 64 {
		w, k := ^uint64(0), uint(min(64, n-at))
		if m != nil {
			w = m[at/64]
		}
		if k < 64 {
			w &= 1<<k - 1
		}
		s.pending |= w << s.n
		if s.n+k < 64 {
			s.n += k
			continue
		}
		s.sum = (s.sum ^ s.pending) * step
		s.sum ^= s.sum >> 29
		// A shift by 64 gives 0, which is right when the word was empty before.
		s.pending = w >> (64 - s.n)
		s.n = s.n + k - 64
	}
}

// value is the checksum of all rows so far.
func (s *rowSum) value() uint64 {
	h := uint64(s.rows)
	for i := range s.cols {
		c := &s.cols[i]
		for _, x := range [...]uint64{uint64(c.values), c.lengths, c.bits.sum, c.bits.pending, c.valid.sum, c.valid.pending} {
			h = (h ^ x) * step
			h ^= h >> 32
		}
	}
	return h
}

// bytesOf is the memory of s.
func bytesOf[T any](s []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(one)))
}
