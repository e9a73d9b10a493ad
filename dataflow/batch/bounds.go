package batch

// Bounds bound the event times of the rows of a batch and the watermarks that they carry.
type Bounds struct {
	Low, High int64 // of the event times
	Watermark int64 // the highest
}

// timeBounds are bounds and the memory that they are of.
type timeBounds struct {
	Bounds
	times *int64 // the first of the event times
	marks *int64 // the first of RowWatermarks; nil if there are none
}

// SetBounds tells the bounds of column col, the event time, which must not change afterwards. Selections of the batch
// that share its memory have them too.
func (b *Batch) SetBounds(col int, to Bounds) {
	b.bounds = timeBounds{Bounds: to}
	if times := b.Cols[col].Ints; len(times) > 0 {
		b.bounds.times = &times[0]
	}
	if len(b.RowWatermarks) > 0 {
		b.bounds.marks = &b.RowWatermarks[0]
	}
}

// Bounds returns bounds of column col, the event time, and of the watermarks, if they are known. They need not be the
// least ones.
func (b *Batch) Bounds(col int) (Bounds, bool) {
	times := b.Cols[col].Ints
	switch {
	case len(times) == 0 || b.bounds.times != &times[0]:
		return Bounds{}, false
	case len(b.RowWatermarks) == 0:
		return Bounds{b.bounds.Low, b.bounds.High, b.Watermark}, true
	}
	return b.bounds.Bounds, b.bounds.marks == &b.RowWatermarks[0]
}
