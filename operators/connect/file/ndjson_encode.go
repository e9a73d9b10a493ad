package file

import (
	"io"
	"math"
	"unicode/utf8"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/value"
)

// ndjsonEncoder writes one JSON object a line.
type ndjsonEncoder struct {
	w   io.Writer
	f   ndjsonForm
	buf []byte
}

// ndjsonFlushSize is how much text is held back for the next write, in bytes.
const ndjsonFlushSize = 256 << 10

// newNDJSONEncoder makes an Encoder of NDJSON.
func newNDJSONEncoder(w io.Writer, o EncodeOptions) (Encoder, error) {
	return &ndjsonEncoder{w: w, f: newNDJSONForm(o.Schema)}, nil
}

// Encode implements Encoder.
func (e *ndjsonEncoder) Encode(b *batch.Batch) error {
	e.buf = e.f.appendBatch(e.buf, b)
	if len(e.buf) < ndjsonFlushSize {
		return nil
	}
	return e.Flush()
}

// Flush implements Encoder.
func (e *ndjsonEncoder) Flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:0]
	return err
}

// Finish implements Encoder.
func (e *ndjsonEncoder) Finish() error { return e.Flush() }

// ndjsonForm is how rows are written as JSON. It holds no state: its functions may be called by several
// goroutines at once.
type ndjsonForm struct {
	before [][]byte // what stands before the value of each column: {"name": or ,"name":
}

func newNDJSONForm(s *dataflow.Schema) ndjsonForm {
	var f ndjsonForm
	for i, c := range s.Columns {
		text := []byte{','}
		if i == 0 {
			text[0] = '{'
		}
		f.before = append(f.before, append(appendJSONString(text, []byte(c.Name)), ':'))
	}
	return f
}

// appendBatch appends the selected rows of b, which has the form's schema.
func (f *ndjsonForm) appendBatch(dst []byte, b *batch.Batch) []byte {
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

func (f *ndjsonForm) appendRow(dst []byte, cols []batch.Vector, i int) []byte {
	if len(cols) == 0 {
		return append(dst, "{}\n"...)
	}
	for c := range cols {
		dst = append(dst, f.before[c]...)
		v := &cols[c]
		if v.Valid != nil && !v.Valid.Get(i) {
			dst = append(dst, "null"...)
			continue
		}
		switch v.Type.Kind {
		case dataflow.Bool:
			dst = value.AppendBool(dst, v.Bits.Get(i))
		case dataflow.Int:
			dst = value.AppendInt(dst, v.Ints[i])
		case dataflow.Float:
			dst = appendJSONFloat(dst, v.Floats[i])
		case dataflow.Decimal:
			dst = append(value.AppendDecimal(append(dst, '"'), v.Decimals[i], v.Type.Scale), '"')
		case dataflow.String:
			dst = appendJSONString(dst, v.Bytes(i))
		case dataflow.Bytes:
			dst = append(value.AppendBytes(append(dst, '"'), v.Bytes(i)), '"')
		case dataflow.Timestamp:
			dst = append(value.AppendTimestamp(append(dst, '"'), v.Ints[i]), '"')
		case dataflow.Duration:
			dst = append(value.AppendDuration(append(dst, '"'), v.Ints[i]), '"')
		}
	}
	return append(dst, '}', '\n')
}

// appendJSONFloat appends v, or null for what JSON has no number for.
func appendJSONFloat(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, "null"...)
	}
	return value.AppendFloat(dst, v)
}

// appendJSONString appends s as a JSON string; what is not UTF-8 becomes U+FFFD.
func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = appendJSONEscape(append(dst, s[done:i]...), c)
			i++
			done = i
			continue
		}
		v, n := utf8.DecodeRune(s[i:])
		if v == utf8.RuneError && n == 1 {
			dst = append(append(dst, s[done:i]...), "\uFFFD"...)
			done = i + 1
		}
		i += n
	}
	return append(append(dst, s[done:]...), '"')
}

func appendJSONEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
