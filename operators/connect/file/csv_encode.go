package file

import (
	"bytes"
	"io"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/value"
)

// csvEncoder writes CSV after RFC 4180, with line feeds at the ends of lines.
type csvEncoder struct {
	w     io.Writer
	f     csvForm
	buf   []byte
	begun bool // the header has been written or is not wanted
}

// csvFlushSize is how much text is held back for the next write, in bytes.
const csvFlushSize = 256 << 10

// newCSVEncoder makes an Encoder of CSV.
func newCSVEncoder(w io.Writer, o EncodeOptions) (Encoder, error) {
	f, err := newCSVForm(o)
	if err != nil {
		return nil, err
	}
	return &csvEncoder{w: w, f: f, begun: !o.Header}, nil
}

// Encode implements Encoder.
func (e *csvEncoder) Encode(b *batch.Batch) error {
	e.begin()
	e.buf = e.f.appendBatch(e.buf, b)
	if len(e.buf) < csvFlushSize {
		return nil
	}
	return e.Flush()
}

func (e *csvEncoder) begin() {
	if !e.begun {
		e.begun = true
		e.buf = e.f.appendHeader(e.buf)
	}
}

// Flush implements Encoder.
func (e *csvEncoder) Flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:0]
	return err
}

// Finish implements Encoder.
func (e *csvEncoder) Finish() error {
	e.begin()
	return e.Flush()
}

// csvForm is how rows are written as CSV. It holds no state: its functions may be called by several
// goroutines at once.
type csvForm struct {
	schema    *dataflow.Schema
	delimiter byte
	null      string
	special   [256]bool // bytes that make quotes necessary
	careful   bool      // other values than text may need quotes
}

func newCSVForm(o EncodeOptions) (csvForm, error) {
	f := csvForm{schema: o.Schema, delimiter: o.Delimiter, null: o.Null}
	if f.delimiter == 0 {
		f.delimiter = ','
	}
	for _, c := range []byte{f.delimiter, '"', '\r', '\n'} {
		f.special[c] = true
	}
	f.careful = f.null != "" || strings.IndexByte("+-.:/=", f.delimiter) >= 0 || f.delimiter >= '0' && f.delimiter <= 'z'
	return f, checkDelimiter(f.delimiter)
}

// appendHeader appends the line with the names of the columns.
func (f *csvForm) appendHeader(dst []byte) []byte {
	for i := range f.schema.Columns {
		if i > 0 {
			dst = append(dst, f.delimiter)
		}
		dst = f.appendText(dst, []byte(f.schema.Columns[i].Name))
	}
	return append(dst, '\n')
}

// appendBatch appends the selected rows of b, which has the form's schema.
func (f *csvForm) appendBatch(dst []byte, b *batch.Batch) []byte {
	if b.Sel == nil {
		for i := range b.Len {
			dst = f.appendRow(dst, b.Cols, i)
		}
		return dst
	}
	for _, i := range b.Sel {
		dst = f.appendRow(dst, b.Cols, int(i))
	}
	return dst
}

func (f *csvForm) appendRow(dst []byte, cols []batch.Vector, i int) []byte {
	for c := range cols {
		if c > 0 {
			dst = append(dst, f.delimiter)
		}
		v := &cols[c]
		if v.Valid != nil && !v.Valid.Get(i) {
			dst = append(dst, f.null...)
			continue
		}
		start := len(dst)
		switch v.Type.Kind {
		case dataflow.Bool:
			dst = value.AppendBool(dst, v.Bits.Get(i))
		case dataflow.Int:
			dst = value.AppendInt(dst, v.Ints[i])
		case dataflow.Float:
			dst = value.AppendFloat(dst, v.Floats[i])
		case dataflow.Decimal:
			dst = value.AppendDecimal(dst, v.Decimals[i], v.Type.Scale)
		case dataflow.String:
			dst = f.appendText(dst, v.Bytes(i))
		case dataflow.Bytes:
			dst = f.appendBytes(dst, v.Bytes(i))
		case dataflow.Timestamp:
			dst = value.AppendTimestamp(dst, v.Ints[i])
		case dataflow.Duration:
			dst = value.AppendDuration(dst, v.Ints[i])
		}
		if f.careful && v.Type.Kind != dataflow.String {
			dst = f.quoteValue(dst, start)
		}
	}
	return append(dst, '\n')
}

// quoteValue puts dst[start:], a value other than text, in quotes if it needs them.
func (f *csvForm) quoteValue(dst []byte, start int) []byte {
	s := dst[start:]
	if string(s) != f.null && bytes.IndexByte(s, f.delimiter) < 0 || len(s) > 0 && s[0] == '"' {
		return dst
	}
	dst = append(dst, `""`...)
	copy(dst[start+1:], dst[start:len(dst)-2])
	dst[start] = '"'
	return dst
}

// appendText appends s, in quotes where it would read back as something else without.
func (f *csvForm) appendText(dst, s []byte) []byte {
	quote := len(s) == 0 || f.null != "" && string(s) == f.null
	for _, c := range s {
		quote = quote || f.special[c]
	}
	if !quote {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for {
		i := bytes.IndexByte(s, '"')
		if i < 0 {
			break
		}
		dst = append(append(dst, s[:i+1]...), '"')
		s = s[i+1:]
	}
	return append(append(dst, s...), '"')
}

// appendBytes appends s in base64.
func (f *csvForm) appendBytes(dst, s []byte) []byte {
	if len(s) == 0 {
		return append(dst, `""`...)
	}
	return value.AppendBytes(dst, s)
}
