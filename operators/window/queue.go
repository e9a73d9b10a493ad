package window

import (
	"cmp"
	"slices"

	"sluice/dataflow/batch"
)

// queue keeps copies of rows until the watermark reaches the one that they carry. They leave it in the
// order of their watermarks, and of their arrival where these are equal.
type queue struct {
	refs   []ref
	sorted bool
	free   []*chunk
}

// ref is a row of a chunk that waits.
type ref struct {
	watermark int64
	chunk     *chunk
	row       int32
}

// chunk is a run of rows that were copied together.
type chunk struct {
	input
	left int // rows that still wait
	// shared says that a copy of the queue may still read the rows.
	shared bool
	group  int // of all rows, while they are being loaded
	cols   []batch.Vector
	masks  []batch.Bitmap
	// payloadRow is where in payload a row's input columns are; -1: they were not kept. Empty if they
	// were kept for no row.
	payloadRow []int32
	hashes     []uint64 // of the keys
	hashed     bool
}

// hash makes hashes what it should be.
func (c *chunk) hash() {
	if c.hashed {
		return
	}
	c.hashes = extend(c.hashes, c.n)
	hashColumns(c.hashes, c.keys, nil)
	c.hashed = true
}

// push copies the listed rows (not nil) of in. floor is the watermark that all rows have at least;
// payload lists those of them whose input columns are to be kept.
func (q *queue) push(in *input, rows []int32, floor int64, payload []int32) {
	if len(rows) == 0 {
		return
	}
	c := q.take()
	c.copyFrom(in, rows, floor)
	c.keepPayload(in, rows, payload)
	if len(q.refs) == 0 {
		q.sorted = true
	}
	for i, w := range c.watermarks {
		if k := len(q.refs); k > 0 && q.refs[k-1].watermark > w {
			q.sorted = false
		}
		q.refs = append(q.refs, ref{w, c, int32(i)})
	}
}

func (q *queue) take() *chunk {
	if k := len(q.free) - 1; k >= 0 {
		c := q.free[k]
		q.free = q.free[:k]
		return c
	}
	return &chunk{}
}

// copyFrom makes c a copy of rows of in.
func (c *chunk) copyFrom(in *input, rows []int32, floor int64) {
	n := len(rows)
	c.input.n, c.left, c.hashed = n, n, false
	if c.cols == nil {
		c.cols = make([]batch.Vector, len(in.keys)+len(in.args))
		c.keys, c.args = make([]*batch.Vector, len(in.keys)), make([]*batch.Vector, len(in.args))
		c.masks, c.input.masks = make([]batch.Bitmap, len(in.masks)), make([]batch.Bitmap, len(in.masks))
	}
	for i, k := range in.keys {
		c.keys[i] = &c.cols[i]
		c.keys[i].Gather(k, rows)
	}
	for i, a := range in.args {
		if a != nil {
			c.args[i] = &c.cols[len(in.keys)+i]
			c.args[i].Gather(a, rows)
		}
	}
	for i, m := range in.masks {
		c.input.masks[i] = nil
		if m != nil {
			c.masks[i] = batch.GrowBitmap(c.masks[i], n)
			for j, r := range rows {
				c.masks[i].SetTo(j, m.Get(int(r)))
			}
			c.input.masks[i] = c.masks[i]
		}
	}
	c.times, c.watermarks, c.seqs = c.times[:0], c.watermarks[:0], c.seqs[:0]
	for _, r := range rows {
		if in.times != nil {
			c.times = append(c.times, in.times[r])
		}
		c.watermarks = append(c.watermarks, max(floor, in.rowWatermark(r)))
		c.seqs = append(c.seqs, in.rowSeq(r))
	}
}

// keepPayload copies the input's columns of the rows that keep lists, some of rows, in the same order.
func (c *chunk) keepPayload(in *input, rows, keep []int32) {
	c.payloadRow = c.payloadRow[:0]
	if len(keep) == 0 {
		return
	}
	k := 0
	for _, r := range rows {
		at := int32(-1)
		if k < len(keep) && keep[k] == r {
			at = int32(k)
			k++
		}
		c.payloadRow = append(c.payloadRow, at)
	}
	if len(c.payload) != len(in.payload) {
		c.payload = make([]*batch.Vector, len(in.payload))
		for i := range c.payload {
			c.payload[i] = &batch.Vector{}
		}
	}
	for i, v := range in.payload {
		c.payload[i].Gather(v, keep)
	}
}

// ready returns the waiting rows whose watermark is not above w, in order, valid until the next push.
func (q *queue) ready(w int64) []ref {
	if !q.sorted {
		slices.SortStableFunc(q.refs, func(a, b ref) int { return cmp.Compare(a.watermark, b.watermark) })
		q.sorted = true
	}
	n, _ := slices.BinarySearchFunc(q.refs, w, func(r ref, w int64) int {
		if r.watermark <= w {
			return -1
		}
		return 1
	})
	return q.refs[:n]
}

// done drops the first n waiting rows.
func (q *queue) done(n int) {
	for _, r := range q.refs[:n] {
		if r.chunk.left--; r.chunk.left == 0 && !r.chunk.shared && len(q.free) < maxFreeChunks {
			q.free = append(q.free, r.chunk)
		}
	}
	k := copy(q.refs, q.refs[n:])
	clear(q.refs[k:])
	q.refs = q.refs[:k]
}

// maxFreeChunks is how many chunks are kept for reuse: those of a large epoch.
const maxFreeChunks = 16
