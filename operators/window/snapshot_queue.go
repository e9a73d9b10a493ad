package window

import (
	"cmp"
	"errors"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/operators/expr"
)

var errWaiting = errors.New("it has rows that wait, for a window without time")

// clone copies what write reads. The chunks are shared, and must not be used again for others.
func (q *queue) clone() queue {
	for _, r := range q.refs {
		r.chunk.shared = true
	}
	return queue{refs: slices.Clone(q.refs)}
}

// write writes the waiting rows, in the order of their watermarks: watermarks, times, places in the stream,
// keys; of each aggregate that has one the argument, and which rows its filter lets pass; of which rows
// the input's columns were kept, and these.
func (q *queue) write(p *pieces) error {
	if len(q.refs) == 0 {
		return nil
	}
	refs := slices.Clone(q.refs)
	slices.SortFunc(refs, compareRefs)
	size := func(entry int32) int { return refs[entry].chunk.textSize(refs[entry].row) }
	return p.entries(partWaiting, len(refs), refGroups(refs), size, func(e *encoder, entries []int32) {
		some := make([]ref, len(entries))
		for i, entry := range entries {
			some[i] = refs[entry]
		}
		collect(some).write(e)
	})
}

// compareRefs orders waiting rows by watermark, then by arrival.
func compareRefs(a, b ref) int {
	if c := cmp.Compare(a.watermark, b.watermark); c != 0 {
		return c
	}
	if c := cmp.Compare(a.chunk.seqs[a.row], b.chunk.seqs[b.row]); c != 0 {
		return c
	}
	return a.chunk.group - b.chunk.group
}

// refGroups gives the key groups of waiting rows, nil if there are no keys.
func refGroups(refs []ref) []uint16 {
	if len(refs[0].chunk.keys) == 0 {
		return nil
	}
	var h expr.KeyHasher
	groups := make([]uint16, len(refs))
	for i, r := range refs {
		groups[i] = uint16(expr.KeyGroup(h.Hash(r.chunk.keys, int(r.row))))
	}
	return groups
}

// textSize is how much text a row has.
func (c *chunk) textSize(row int32) int {
	n := 0
	add := func(v *batch.Vector, row int32) {
		if v != nil && isText(v.Type) {
			n += len(v.Bytes(int(row)))
		}
	}
	for _, v := range c.keys {
		add(v, row)
	}
	for _, v := range c.args {
		add(v, row)
	}
	if at := c.payloadAt(row); at >= 0 {
		for _, v := range c.payload {
			add(v, at)
		}
	}
	return n
}

// payloadAt is where in payload a row's input columns are, or -1.
func (c *chunk) payloadAt(row int32) int32 {
	if len(c.payloadRow) == 0 {
		return -1
	}
	return c.payloadRow[row]
}

// collect copies waiting rows, of which there must be some, into one chunk.
func collect(refs []ref) *chunk {
	like := refs[0].chunk
	c := &chunk{left: len(refs)}
	c.input.n = len(refs)
	for _, r := range refs {
		c.times = append(c.times, r.chunk.times[r.row])
		c.watermarks = append(c.watermarks, r.watermark)
		c.seqs = append(c.seqs, r.chunk.seqs[r.row])
	}
	for i, k := range like.keys {
		v := &batch.Vector{}
		v.Reset(k.Type, 0)
		for _, r := range refs {
			v.Append(r.chunk.keys[i], int(r.row))
		}
		c.keys = append(c.keys, v)
	}
	c.args, c.input.masks, c.masks = make([]*batch.Vector, len(like.args)), make([]batch.Bitmap, len(like.args)), make([]batch.Bitmap, len(like.args))
	for i, a := range like.args {
		c.collectMask(i, refs)
		if a != nil {
			c.collectArg(i, refs)
		}
	}
	c.collectPayload(refs)
	return c
}

func (c *chunk) collectMask(i int, refs []ref) {
	if !slices.ContainsFunc(refs, func(r ref) bool { return r.chunk.input.masks[i] != nil }) {
		return
	}
	m := batch.GrowBitmap(nil, len(refs))
	for j, r := range refs {
		from := r.chunk.input.masks[i]
		m.SetTo(j, from == nil || from.Get(int(r.row)))
	}
	c.input.masks[i] = m
}

// collectArg copies an argument. Where a filter leaves the row out, it is undefined; here it is NULL.
func (c *chunk) collectArg(i int, refs []ref) {
	v := &batch.Vector{}
	v.Reset(refs[0].chunk.args[i].Type, 0)
	for j, r := range refs {
		if m := c.input.masks[i]; m != nil && !m.Get(j) {
			v.AppendNull()
		} else {
			v.Append(r.chunk.args[i], int(r.row))
		}
	}
	c.args[i] = v
}

func (c *chunk) collectPayload(refs []ref) {
	for _, r := range refs {
		at := r.chunk.payloadAt(r.row)
		if at >= 0 && c.payload == nil {
			for _, v := range r.chunk.payload {
				w := &batch.Vector{}
				w.Reset(v.Type, 0)
				c.payload = append(c.payload, w)
			}
		}
		if at < 0 {
			c.payloadRow = append(c.payloadRow, -1)
			continue
		}
		c.payloadRow = append(c.payloadRow, int32(c.payload[0].Len))
		for i, v := range r.chunk.payload {
			c.payload[i].Append(v, int(at))
		}
	}
	if c.payload == nil {
		c.payloadRow = nil
	}
}

func (c *chunk) write(e *encoder) {
	e.count(c.watermarks)
	e.ints(c.times)
	e.ints(c.seqs)
	for _, k := range c.keys {
		e.vector(k)
	}
	pass := make([]bool, c.input.n)
	for i, a := range c.args {
		for j := range pass {
			m := c.input.masks[i]
			pass[j] = m == nil || m.Get(j)
		}
		e.bools(pass)
		if a != nil {
			e.vector(a)
		}
	}
	for j := range pass {
		pass[j] = c.payloadAt(int32(j)) >= 0
	}
	e.bools(pass)
	for _, v := range c.payload {
		e.vector(v)
	}
}

// load adds the rows of a piece and returns them, or nil after an error. payload has the types of the
// input's columns, where they are kept.
func (q *queue) load(d *decoder, group int, g *groups, calls []call, payload []dataflow.Type) *chunk {
	c := &chunk{group: group}
	c.watermarks = d.count()
	for _, w := range c.watermarks {
		if w <= d.reached {
			d.failf("it has a row that waits for the watermark %d, which has been reached", w)
			break
		}
	}
	n := len(c.watermarks)
	c.input.n, c.left = n, n
	c.times, c.seqs = d.ints(n), d.within(n, 0, maxSeq, "a place in the stream")
	for i := range g.cols {
		c.keys = append(c.keys, d.vector(g.cols[i].typ, n))
	}
	d.checkGroup(c.keys, n, group)
	c.input.masks, c.masks = make([]batch.Bitmap, len(calls)), make([]batch.Bitmap, len(calls))
	c.args = make([]*batch.Vector, len(calls))
	for i, call := range calls {
		if pass := d.bools(n); slices.Contains(pass, false) {
			c.input.masks[i] = batch.GrowBitmap(nil, n)
			for j, p := range pass {
				c.input.masks[i].SetTo(j, p)
			}
		}
		if call.fn != countStar {
			c.args[i] = d.vector(call.arg, n)
		}
	}
	c.loadPayload(d, payload)
	if d.err != nil {
		return nil
	}
	for i, w := range c.watermarks {
		q.refs = append(q.refs, ref{w, c, int32(i)})
	}
	return c
}

func (c *chunk) loadPayload(d *decoder, types []dataflow.Type) {
	kept := int32(0)
	for _, k := range d.bools(c.input.n) {
		at := int32(-1)
		if k {
			at = kept
			kept++
		}
		c.payloadRow = append(c.payloadRow, at)
	}
	switch {
	case kept == 0:
		c.payloadRow = nil
	case len(types) == 0:
		d.failf("it has rows for an output for late rows")
	default:
		for _, t := range types {
			c.payload = append(c.payload, d.vector(t, int(kept)))
		}
	}
}

// loaded brings the rows that have been loaded into order, and copies those that come one after the other
// into the same chunk.
func (q *queue) loaded() {
	slices.SortFunc(q.refs, compareRefs)
	q.sorted = true
	for from := 0; from < len(q.refs); {
		to, bytes := from, 0
		for to < len(q.refs) && to-from < batch.TargetRows {
			if bytes += q.refs[to].chunk.textSize(q.refs[to].row); bytes > pieceText && to > from {
				break
			}
			to++
		}
		c := collect(q.refs[from:to])
		c.group = operators.WholeState
		for i := range q.refs[from:to] {
			q.refs[from+i] = ref{q.refs[from+i].watermark, c, int32(i)}
		}
		from = to
	}
}
