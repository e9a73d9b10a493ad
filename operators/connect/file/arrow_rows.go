package file

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// rowFilter makes chunks of converted rows, with the bad rows taken out.
type rowFilter struct {
	schema *dataflow.Schema
	dense  batch.Batch
	errs   []batch.RowError
	sel    []int32
	out    Chunk
}

// chunk gives the chunk of the rows of b, which has no selection. bad lists values that did not fit, in
// order of rows; a row with a NULL where none may be is bad too. line is the number of b's first row.
// The chunk is valid until the next call and for as long as b is.
func (f *rowFilter) chunk(b *batch.Batch, bad []batch.RowError, line int64) *Chunk {
	f.errs = append(f.errs[:0], bad...)
	for i := range f.schema.Columns {
		f.findNulls(i, &b.Cols[i])
	}
	f.out = Chunk{Batch: b, Bad: f.out.Bad[:0], Line: line}
	if len(f.errs) > 0 {
		f.takeOut(b, line)
	}
	return &f.out
}

func (f *rowFilter) findNulls(col int, v *batch.Vector) {
	c := &f.schema.Columns[col]
	if v.Valid == nil || c.Nullable && !c.EventTime || v.Valid.Count(v.Len) == v.Len {
		return
	}
	reason := fmt.Sprintf("column %q: NULL in a column that is not nullable", c.Name)
	if c.EventTime {
		reason = fmt.Sprintf("column %q: the event time is NULL", c.Name)
	}
	for i := range v.Len {
		if v.IsNull(i) {
			f.errs = append(f.errs, batch.RowError{Row: i, Col: col, Reason: reason})
		}
	}
}

// takeOut moves the rows that have errors from b to the list of bad rows.
func (f *rowFilter) takeOut(b *batch.Batch, line int64) {
	slices.SortStableFunc(f.errs, func(a, b batch.RowError) int { return a.Row - b.Row })
	f.sel = f.sel[:0]
	row := 0
	for errs := f.errs; len(errs) > 0; {
		n := 1
		for n < len(errs) && errs[n].Row == errs[0].Row {
			n++
		}
		for ; row < errs[0].Row; row++ {
			f.sel = append(f.sel, int32(row))
		}
		f.out.Bad = append(f.out.Bad, BadRow{Before: len(f.sel), Line: line + int64(row), Reason: errs[0].Reason,
			Raw: appendRow(nil, b, row, errs[:n])})
		errs = errs[n:]
		row++
	}
	for ; row < b.Len; row++ {
		f.sel = append(f.sel, int32(row))
	}
	part := *b
	part.Sel = f.sel
	f.dense.CopyFrom(&part)
	f.out.Batch = &f.dense
}

// appendRow writes a row as a JSON object. Values that did not fit are given as they were.
func appendRow(dst []byte, b *batch.Batch, row int, errs []batch.RowError) []byte {
	dst = append(dst, '{')
	for i := range b.Cols {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendText(dst, b.Schema.Columns[i].Name), ':')
		at := slices.IndexFunc(errs, func(e batch.RowError) bool { return e.Col == i })
		if at >= 0 && errs[at].Value != "" {
			dst = appendText(dst, errs[at].Value)
		} else {
			dst = appendValue(dst, &b.Cols[i], row)
		}
	}
	return append(dst, '}')
}

func appendText(dst []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string always has a JSON form
	return append(dst, text...)
}

func appendValue(dst []byte, v *batch.Vector, row int) []byte {
	if v.IsNull(row) {
		return append(dst, "null"...)
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		return strconv.AppendBool(dst, v.Bits.Get(row))
	case dataflow.Int:
		return strconv.AppendInt(dst, v.Ints[row], 10)
	case dataflow.Float:
		if x := v.Floats[row]; math.IsNaN(x) || math.IsInf(x, 0) {
			return appendText(dst, strconv.FormatFloat(x, 'g', -1, 64))
		}
		return strconv.AppendFloat(dst, v.Floats[row], 'g', -1, 64)
	case dataflow.Decimal:
		dst = decimal.Append(append(dst, '"'), v.Decimals[row], v.Type.Scale)
		return append(dst, '"')
	case dataflow.String:
		return appendText(dst, string(v.Bytes(row)))
	case dataflow.Bytes:
		return appendText(dst, base64.StdEncoding.EncodeToString(v.Bytes(row)))
	case dataflow.Timestamp:
		return appendText(dst, time.UnixMicro(v.Ints[row]).UTC().Format(time.RFC3339Nano))
	default:
		return appendText(dst, strconv.FormatInt(v.Ints[row], 10)+"us")
	}
}
