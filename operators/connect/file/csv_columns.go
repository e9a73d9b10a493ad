package file

import (
	"fmt"
	"math"
	"unicode/utf8"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/value"
)

// decodeColumns decodes the stripe's rows into the chunk.
func (r *csvRows) decodeColumns(rows int) {
	for i := range r.f.columns {
		c := &r.f.columns[i]
		v := &r.chunk.rows.Cols[c.col]
		switch c.Type.Kind {
		case dataflow.Bool:
			r.bools(c, v.Bits, rows)
		case dataflow.Int:
			r.ints(c, v.Ints[r.base:r.base+rows])
		case dataflow.Float:
			r.floats(c, v.Floats[r.base:r.base+rows])
		case dataflow.Decimal:
			r.decimals(c, v, rows)
		case dataflow.String:
			r.strings(c, v, rows)
		case dataflow.Bytes:
			r.bytes(c, v, rows)
		case dataflow.Timestamp:
			if r.f.times != nil {
				r.formattedTimes(c, v.Ints[r.base:r.base+rows])
			} else {
				r.timestamps(c, v.Ints[r.base:r.base+rows])
			}
		case dataflow.Duration:
			r.durations(c, v.Ints[r.base:r.base+rows])
		}
	}
}

// isNull reports whether the field is NULL.
func (r *csvRows) isNull(x csvField) bool {
	if x.start == x.end { // and so not quoted
		return true
	}
	return r.f.null != "" && x.start&csvQuoted == 0 && string(r.data[x.start:x.end]) == r.f.null
}

// null makes the stripe's row i of a column NULL, if it may be.
func (r *csvRows) null(c *csvColumn, i int) {
	r.chunk.setNull(c.col, r.base+i)
	switch {
	case c.EventTime:
		r.bad(i, fmt.Sprintf("column %q: the event time is NULL", c.Name))
	case !c.Nullable:
		r.bad(i, fmt.Sprintf("column %q is NULL", c.Name))
	}
}

// fail marks the stripe's row i as bad, because err is what is wrong with the field.
func (r *csvRows) fail(c *csvColumn, i int, err error) {
	r.bad(i, badValue(c.Name, r.text(r.data, r.fields[i*r.width+c.field]), err))
}

// badValue is the reason for a value that a column's type does not have.
func badValue(column string, text []byte, err error) string {
	const most = 100
	if len(text) > most {
		return fmt.Sprintf("column %q: %q... %s", column, text[:most], err)
	}
	return fmt.Sprintf("column %q: %q %s", column, text, err)
}

// bad marks the stripe's row i as bad.
func (r *csvRows) bad(i int, reason string) {
	first, last := r.fields[i*r.width], r.fields[(i+1)*r.width-1]
	start, end := int(first.start&csvPosition), int(last.end)
	if first.start&csvQuoted != 0 {
		start--
	}
	if last.start&csvQuoted != 0 {
		end++
	}
	r.chunk.bad = append(r.chunk.bad, badText{row: r.base + i, inBatch: true, start: start, end: end, reason: reason})
}

func (r *csvRows) bools(c *csvColumn, out batch.Bitmap, rows int) {
	for i, k := 0, c.field; i < rows; i, k = i+1, k+r.width {
		x := r.fields[k]
		if r.isNull(x) {
			out.Clear(r.base + i)
			r.null(c, i)
			continue
		}
		v, err := value.ParseBool(r.text(r.data, x))
		if err != nil {
			r.fail(c, i, err)
		}
		out.SetTo(r.base+i, v)
	}
}

func (r *csvRows) ints(c *csvColumn, out []int64) {
	for i, k := 0, c.field; i < len(out); i, k = i+1, k+r.width {
		x := r.fields[k]
		if r.isNull(x) {
			out[i] = 0
			r.null(c, i)
			continue
		}
		v, err := value.ParseInt(r.text(r.data, x))
		if err != nil {
			r.fail(c, i, err)
		}
		out[i] = v
	}
}

func (r *csvRows) floats(c *csvColumn, out []float64) {
	for i, k := 0, c.field; i < len(out); i, k = i+1, k+r.width {
		x := r.fields[k]
		if r.isNull(x) {
			out[i] = 0
			r.null(c, i)
			continue
		}
		v, err := parseFloat(r.text(r.data, x))
		if err != nil {
			r.fail(c, i, err)
		}
		out[i] = v
	}
}

// parseFloat also reads what is written for floats that are no numbers, which nothing but a file has.
func parseFloat(text []byte) (float64, error) {
	v, err := value.ParseFloat(text)
	if err == nil {
		return v, nil
	}
	switch string(text) {
	case "NaN":
		return math.NaN(), nil
	case "+Inf":
		return math.Inf(1), nil
	case "-Inf":
		return math.Inf(-1), nil
	}
	return v, err
}

func (r *csvRows) timestamps(c *csvColumn, out []int64) {
	for i, k := 0, c.field; i < len(out); i, k = i+1, k+r.width {
		x := r.fields[k]
		if r.isNull(x) {
			out[i] = 0
			r.null(c, i)
			continue
		}
		v, err := value.ParseTimestamp(r.text(r.data, x))
		if err != nil {
			r.fail(c, i, err)
		}
		out[i] = v
	}
}

func (r *csvRows) formattedTimes(c *csvColumn, out []int64) {
	for i, k := 0, c.field; i < len(out); i, k = i+1, k+r.width {
		x := r.fields[k]
		if r.isNull(x) {
			out[i] = 0
			r.null(c, i)
			continue
		}
		v, err := r.f.times.Parse(r.text(r.data, x))
		if err != nil {
			r.fail(c, i, fmt.Errorf("%w of the form %s", err, r.f.times))
		}
		out[i] = v
	}
}

func (r *csvRows) durations(c *csvColumn, out []int64) {
	for i, k := 0, c.field; i < len(out); i, k = i+1, k+r.width {
		x := r.fields[k]
		if r.isNull(x) {
			out[i] = 0
			r.null(c, i)
			continue
		}
		v, err := value.ParseDuration(r.text(r.data, x))
		if err != nil {
			r.fail(c, i, err)
		}
		out[i] = v
	}
}

func (r *csvRows) decimals(c *csvColumn, v *batch.Vector, rows int) {
	out := v.Decimals[r.base : r.base+rows]
	for i, k := 0, c.field; i < len(out); i, k = i+1, k+r.width {
		x := r.fields[k]
		if r.isNull(x) {
			r.null(c, i)
			continue
		}
		n, err := value.ParseDecimal(r.text(r.data, x), c.Type.Precision, c.Type.Scale)
		if err != nil {
			r.fail(c, i, err)
		}
		out[i] = n
	}
}

func (r *csvRows) bytes(c *csvColumn, v *batch.Vector, rows int) {
	for i, k := 0, c.field; i < rows; i, k = i+1, k+r.width {
		x := r.fields[k]
		if r.isNull(x) {
			r.null(c, i)
		} else {
			var err error
			if v.Data, err = value.AppendParsedBytes(v.Data, r.text(r.data, x)); err != nil {
				r.fail(c, i, err)
			}
		}
		v.Offsets[r.base+i+1] = int32(len(v.Data))
	}
}

func (r *csvRows) strings(c *csvColumn, v *batch.Vector, rows int) {
	out := v.Data
	offsets := v.Offsets[r.base+1 : r.base+1+rows]
	for i, k := 0, c.field; i < len(offsets); i, k = i+1, k+r.width {
		x := r.fields[k]
		switch {
		case r.isNull(x):
			r.null(c, i)
		case !r.validUTF8 && !utf8.Valid(r.data[x.start&csvPosition:x.end]):
			r.fail(c, i, errUTF8)
		case x.start&csvEscaped != 0:
			out = appendUnescaped(out, r.data[x.start&csvPosition:x.end])
		default:
			out = append(out, r.data[x.start&csvPosition:x.end]...)
		}
		offsets[i] = int32(len(out))
	}
	v.Data = out
}
