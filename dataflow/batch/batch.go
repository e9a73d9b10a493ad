package batch

import (
	"math"

	"sluice/dataflow"
)

// TargetRows is how many rows producers aim to put into one batch: few enough that a handful of its
// columns stay in the second-level cache.
const TargetRows = 8192

// MaxDataBytes bounds the Data of one text column of a batch, well inside what int32 offsets can hold.
const MaxDataBytes = 64 << 20

// The watermarks that come before and after all times.
const (
	MinWatermark int64 = math.MinInt64
	MaxWatermark int64 = math.MaxInt64
)

// Batch is a columnar run of rows of one stream, in stream order.
//
// Who makes a batch owns it and its memory. Everybody else may read it, but neither change it nor keep
// any part of it, until the call that passed it returns; whoever needs it longer copies it (CopyFrom). The
// executor keeps a batch, and selections that share its columns, where its owner has given it away.
type Batch struct {
	Schema *dataflow.Schema
	Len    int      // rows in each column, selected or not
	Cols   []Vector // one for each column of Schema

	// Sel, if not nil, lists the rows that the batch really has, in rising order; the others are to be
	// passed over, and their values may be anything.
	Sel []int32

	// Watermark is the watermark that a row carries: what its source had before the row. It serves for
	// the whole batch if RowWatermarks is nil, which a source may do only where the rows are in order
	// of event time (or have none); else RowWatermarks has one for each of the Len rows.
	Watermark     int64
	RowWatermarks []int64

	bounds timeBounds // see SetBounds
}

// New makes an empty batch of the schema.
func New(s *dataflow.Schema) *Batch {
	b := &Batch{Schema: s, Cols: make([]Vector, len(s.Columns)), Watermark: MinWatermark}
	for i := range b.Cols {
		b.Cols[i].Reset(s.Columns[i].Type, 0)
	}
	return b
}

// Reset makes b empty; it keeps its memory.
func (b *Batch) Reset() {
	b.Len, b.Sel, b.Watermark, b.RowWatermarks, b.bounds = 0, nil, MinWatermark, b.RowWatermarks[:0], timeBounds{}
	for i := range b.Cols {
		b.Cols[i].Reset(b.Schema.Columns[i].Type, 0)
	}
}

// Rows is the number of rows that the batch really has.
func (b *Batch) Rows() int {
	if b.Sel != nil {
		return len(b.Sel)
	}
	return b.Len
}

// RowWatermark returns the watermark that row i carries.
func (b *Batch) RowWatermark(i int) int64 {
	if b.RowWatermarks != nil {
		return b.RowWatermarks[i]
	}
	return b.Watermark
}

// CopyFrom replaces the contents of b by the selected rows of src, without a selection. b keeps its
// memory and shares none with src.
func (b *Batch) CopyFrom(src *Batch) {
	b.Schema, b.Len, b.Sel, b.Watermark, b.bounds = src.Schema, src.Rows(), nil, src.Watermark, timeBounds{}
	if len(b.Cols) != len(src.Cols) {
		b.Cols = make([]Vector, len(src.Cols))
	}
	for i := range src.Cols {
		b.Cols[i].Gather(&src.Cols[i], src.Sel)
	}
	if src.RowWatermarks == nil {
		b.RowWatermarks = nil
		return
	}
	b.RowWatermarks = grow(b.RowWatermarks, b.Len)
	gatherFixed(b.RowWatermarks, src.RowWatermarks, src.Sel)
}

// Slice makes dst a view of rows from to to (excluding) of src, which must have no selection and from
// a multiple of 64. dst shares src's memory.
func (dst *Batch) Slice(src *Batch, from, to int) {
	dst.Schema, dst.Len, dst.Sel, dst.Watermark, dst.RowWatermarks, dst.bounds = src.Schema, to-from, nil, src.Watermark, nil, timeBounds{}
	if src.RowWatermarks != nil {
		dst.RowWatermarks = src.RowWatermarks[from:to]
	}
	if len(dst.Cols) != len(src.Cols) {
		dst.Cols = make([]Vector, len(src.Cols))
	}
	for i := range src.Cols {
		s := &src.Cols[i]
		d := Vector{Type: s.Type, Len: to - from}
		if s.Valid != nil {
			d.Valid = s.Valid[from/64 : Words(to)]
		}
		switch s.Type.Kind {
		case dataflow.Bool:
			d.Bits = s.Bits[from/64 : Words(to)]
		case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
			d.Ints = s.Ints[from:to]
		case dataflow.Float:
			d.Floats = s.Floats[from:to]
		case dataflow.Decimal:
			d.Decimals = s.Decimals[from:to]
		case dataflow.String, dataflow.Bytes:
			d.Offsets, d.Data = s.Offsets[from:to+1], s.Data
		}
		dst.Cols[i] = d
	}
}
