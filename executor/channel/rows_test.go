package channel

import (
	"fmt"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// allTypes is a stream with a column of each type, NULL or not.
func allTypes() *dataflow.Schema {
	s := &dataflow.Schema{}
	for i, t := range []dataflow.Type{dataflow.TimestampType, dataflow.BoolType, dataflow.IntType, dataflow.FloatType,
		dataflow.DecimalType(30, 2), dataflow.StringType, dataflow.BytesType, dataflow.DurationType} {
		s.Columns = append(s.Columns,
			dataflow.Column{Name: fmt.Sprintf("c%d", i), Type: t, EventTime: i == 0},
			dataflow.Column{Name: fmt.Sprintf("n%d", i), Type: t, Nullable: true})
	}
	return s
}

// intSchema is a stream of n columns of integers.
func intSchema(n int) *dataflow.Schema {
	s := &dataflow.Schema{}
	for i := range n {
		s.Columns = append(s.Columns, dataflow.Column{Name: fmt.Sprintf("c%d", i), Type: dataflow.IntType})
	}
	return s
}

// isNull says whether the row of an epoch is NULL in a nullable column.
func isNull(epoch, row int64, col int) bool { return (epoch*7+row*3+int64(col))%5 == 0 }

// rowsOf makes the rows from to to of an epoch: what is in them follows from the epoch and their number.
// Between them, if gaps is set, are others that are not selected. What a NULL row holds is junk, which
// differs from call to call by way of junk.
func rowsOf(s *dataflow.Schema, epoch, from, to int64, gaps bool, junk int64) *batch.Batch {
	b := batch.New(s)
	b.Watermark = epoch*100 + from
	var sel []int32
	for row := from; row < to; row++ {
		if gaps {
			appendRow(b, -epoch, row, junk)
		}
		sel = append(sel, int32(b.Len))
		appendRow(b, epoch, row, junk)
	}
	if gaps {
		b.Sel = sel
	}
	if epoch%2 == 0 {
		b.RowWatermarks = make([]int64, b.Len)
		for i := range b.RowWatermarks {
			b.RowWatermarks[i] = epoch*100 + from + int64(i)
		}
	}
	return b
}

func appendRow(b *batch.Batch, epoch, row, junk int64) {
	for i := range b.Cols {
		c, v := &b.Schema.Columns[i], &b.Cols[i]
		null := c.Nullable && isNull(epoch, row, i)
		x := epoch*1000 + row*10 + int64(i)
		if null {
			x = junk + row
		}
		text := strings.Repeat(fmt.Sprintf("é%d", x), int(uint64(x)%4))
		src := batch.Vector{Type: c.Type, Len: 1, Bits: batch.Bitmap{uint64(x) >> 1 & 1}, Ints: []int64{x}, Floats: []float64{float64(x)},
			Decimals: []decimal.Num{decimal.FromInt64(-x)}, Offsets: []int32{0, int32(len(text))}, Data: []byte(text)}
		v.Append(&src, 0)
		if null {
			setNull(v, v.Len-1)
			if isText(c.Type) { // Append leaves NULL without text; another producer may not
				v.Data = append(v.Data, text...)
				v.Offsets[v.Len] = int32(len(v.Data))
			}
		}
	}
	b.Len++
}

func setNull(v *batch.Vector, row int) {
	if v.Valid == nil {
		v.Valid = make(batch.Bitmap, batch.Words(row+1))
		v.Valid.Fill(row+1, true)
	}
	v.Valid.Clear(row)
}

// texts renders the selected rows of a batch, each with its watermark if marks is set.
func texts(b *batch.Batch, marks bool) []string {
	var out []string
	for i := range b.Rows() {
		row := i
		if b.Sel != nil {
			row = int(b.Sel[i])
		}
		var t strings.Builder
		if marks {
			fmt.Fprintf(&t, "@%d ", b.RowWatermark(row))
		}
		for j := range b.Cols {
			t.WriteString(valueText(&b.Cols[j], row))
			t.WriteByte('|')
		}
		out = append(out, t.String())
	}
	return out
}

func valueText(v *batch.Vector, i int) string {
	if v.IsNull(i) {
		return "NULL"
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		return fmt.Sprint(v.Bits.Get(i))
	case dataflow.Float:
		return fmt.Sprint(v.Floats[i])
	case dataflow.Decimal:
		return fmt.Sprint(v.Decimals[i])
	case dataflow.String, dataflow.Bytes:
		return string(v.Bytes(i))
	}
	return fmt.Sprint(v.Ints[i])
}
