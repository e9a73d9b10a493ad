package batch

import (
	"fmt"

	"sluice/dataflow"
)

// Validate checks what everyone who reads a batch relies on: a vector of the right type and length for
// each column, values for each row, text offsets in order and inside their data, a selection that rises
// and stays inside the batch, no NULL in a selected row of a column that is not nullable or of the event
// time, a watermark for each row or one for all. It is for tests and the invariants build; it looks at
// every row.
func (b *Batch) Validate() error {
	if b.Schema == nil {
		return fmt.Errorf("batch: no schema")
	}
	if b.Len < 0 {
		return fmt.Errorf("batch: length %d", b.Len)
	}
	if len(b.Cols) != len(b.Schema.Columns) {
		return fmt.Errorf("batch: %d vectors for %d columns", len(b.Cols), len(b.Schema.Columns))
	}
	if b.RowWatermarks != nil && len(b.RowWatermarks) != b.Len {
		return fmt.Errorf("batch: %d row watermarks for %d rows", len(b.RowWatermarks), b.Len)
	}
	if err := b.validateSel(); err != nil {
		return err
	}
	for i := range b.Cols {
		c := &b.Schema.Columns[i]
		if err := b.validateColumn(c, &b.Cols[i]); err != nil {
			return fmt.Errorf("batch: column %q: %w", c.Name, err)
		}
	}
	return nil
}

func (b *Batch) validateSel() error {
	last := int32(-1)
	for i, s := range b.Sel {
		if s <= last {
			return fmt.Errorf("batch: selection has %d after %d at %d", s, last, i)
		}
		last = s
	}
	if int(last) >= b.Len {
		return fmt.Errorf("batch: selection has row %d of %d", last, b.Len)
	}
	return nil
}

func (b *Batch) validateColumn(c *dataflow.Column, v *Vector) error {
	if v.Type != c.Type {
		return fmt.Errorf("vector of %s in a column of %s", v.Type, c.Type)
	}
	if v.Len != b.Len {
		return fmt.Errorf("vector of %d rows in a batch of %d", v.Len, b.Len)
	}
	if v.Valid != nil && len(v.Valid) < Words(v.Len) {
		return fmt.Errorf("validity of %d words for %d rows", len(v.Valid), v.Len)
	}
	if err := v.validateValues(); err != nil {
		return err
	}
	if c.Nullable && !c.EventTime || v.Valid == nil {
		return nil
	}
	for i := range b.Rows() {
		row := i
		if b.Sel != nil {
			row = int(b.Sel[i])
		}
		if v.IsNull(row) {
			return fmt.Errorf("row %d is NULL", row)
		}
	}
	return nil
}

func (v *Vector) validateValues() error {
	have, need := 0, v.Len
	switch v.Type.Kind {
	case dataflow.Bool:
		have, need = len(v.Bits), Words(v.Len)
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		have = len(v.Ints)
	case dataflow.Float:
		have = len(v.Floats)
	case dataflow.Decimal:
		have = len(v.Decimals)
	case dataflow.String, dataflow.Bytes:
		return v.validateOffsets()
	default:
		return fmt.Errorf("no column is of type %s", v.Type)
	}
	if have < need {
		return fmt.Errorf("memory for %d values where %d are needed", have, need)
	}
	return nil
}

func (v *Vector) validateOffsets() error {
	if len(v.Offsets) < v.Len+1 {
		return fmt.Errorf("%d offsets for %d rows", len(v.Offsets), v.Len)
	}
	last := v.Offsets[0]
	if last < 0 {
		return fmt.Errorf("offset %d", last)
	}
	for i, o := range v.Offsets[:v.Len+1] {
		if o < last {
			return fmt.Errorf("offset %d after %d at row %d", o, last, i)
		}
		last = o
	}
	if int(last) > len(v.Data) {
		return fmt.Errorf("offset %d into %d bytes", last, len(v.Data))
	}
	return nil
}
