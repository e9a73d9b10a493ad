package file

import (
	"errors"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
	"sluice/operators/value"
)

// value decodes the JSON value at pos into the row's column.
func (r *ndjsonRows) value(col int) bool {
	start := r.pos
	c := r.data[start]
	if c == 'n' {
		return r.literal("null") && r.null(col)
	}
	v := &r.chunk.rows.Cols[col]
	if v.Valid != nil {
		v.Valid.Set(r.row)
	}
	var err error
	switch {
	case c == '"':
		text, ok := r.text()
		if !ok {
			return false
		}
		err = r.fromString(v, text)
	case c == '-' || c-'0' <= 9:
		text, ok := r.number()
		if !ok {
			return false
		}
		err = r.fromNumber(v, text)
	case c == 't' || c == 'f':
		word := "true"
		if c == 'f' {
			word = "false"
		}
		if !r.literal(word) {
			return false
		}
		if v.Type.Kind == dataflow.Bool {
			v.Bits.SetTo(r.row, c == 't')
			return true
		}
		err = wrongType(v)
	case c == '{' || c == '[':
		if !r.skip(maxNDJSONDepth) {
			return false
		}
		err = wrongType(v)
	default:
		return r.unexpected("a value")
	}
	if err == nil {
		return true
	}
	const most = 100
	text := string(r.data[start:min(r.pos, start+most)])
	if r.pos > start+most {
		text += "..."
	}
	return r.fail("column %q: %s %s", r.f.schema.Columns[col].Name, strings.ToValidUTF8(text, "?"), err)
}

// wrongTypes are the errors for JSON values of a kind that a column does not take.
var wrongTypes = map[dataflow.Kind]error{
	dataflow.Bool: value.ErrBool, dataflow.Int: value.ErrInt, dataflow.Float: value.ErrFloat, dataflow.Decimal: decimal.ErrSyntax,
	dataflow.String: errors.New("is not a string"), dataflow.Bytes: errors.New("is not a string of base64"),
	dataflow.Timestamp: value.ErrTimestamp, dataflow.Duration: value.ErrDuration,
}

func wrongType(v *batch.Vector) error { return wrongTypes[v.Type.Kind] }

// fromString puts the text of a JSON string into the row of v.
func (r *ndjsonRows) fromString(v *batch.Vector, text []byte) (err error) {
	switch v.Type.Kind {
	case dataflow.String:
		v.Data = append(v.Data[:v.Offsets[r.row]], text...)
		v.Offsets[r.row+1] = int32(len(v.Data))
	case dataflow.Bytes:
		v.Data, err = value.AppendParsedBytes(v.Data[:v.Offsets[r.row]], text)
		v.Offsets[r.row+1] = int32(len(v.Data))
	case dataflow.Decimal:
		v.Decimals[r.row], err = value.ParseDecimal(text, v.Type.Precision, v.Type.Scale)
	case dataflow.Duration:
		v.Ints[r.row], err = value.ParseDuration(text)
	case dataflow.Timestamp:
		if r.f.times != nil {
			v.Ints[r.row], err = r.f.times.Parse(text)
		} else {
			v.Ints[r.row], err = value.ParseTimestamp(text)
		}
	default:
		err = wrongType(v)
	}
	return err
}

// fromNumber puts a JSON number into the row of v.
func (r *ndjsonRows) fromNumber(v *batch.Vector, text []byte) (err error) {
	switch v.Type.Kind {
	case dataflow.Int:
		v.Ints[r.row], err = wholeNumber(text)
	case dataflow.Float:
		v.Floats[r.row], err = value.ParseFloat(text)
	case dataflow.Decimal:
		v.Decimals[r.row], err = value.ParseDecimal(text, v.Type.Precision, v.Type.Scale)
	case dataflow.Timestamp:
		var ms int64
		if ms, err = wholeNumber(text); err != nil {
			return value.ErrTimestamp
		}
		v.Ints[r.row], err = value.TimestampFromMillis(ms)
	default:
		err = wrongType(v)
	}
	return err
}

// wholeNumber reads an int, which may be written as 1.0 or 1e3.
func wholeNumber(text []byte) (int64, error) {
	v, err := value.ParseInt(text)
	if err != value.ErrInt {
		return v, err
	}
	n, err := decimal.Parse(text, decimal.MaxDigits, 0)
	if err != nil {
		return 0, value.ErrInt
	}
	v, ok := decimal.Int64(n)
	if !ok {
		return 0, value.ErrIntRange
	}
	return v, nil
}
