package batch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"sluice/dataflow"
)

// ErrTooMuchText says that a record batch has more than MaxDataBytes of text in a column. Fewer rows of
// it (NewSlice) may be converted; a single row always can be.
var ErrTooMuchText = errors.New("more text in a column than a batch can have")

// RowError says why one value of an Arrow record batch has no place in its column.
type RowError struct {
	Row    int // in the record batch
	Col    int // in the schema
	Value  string
	Reason string // `column "n": 18446744073709551615 does not fit an int`
}

// ArrowConverter turns Arrow record batches of one Arrow schema into batches of one stream type.
//
// Columns match by name; columns that the stream type does not name are left out. Every Arrow type
// whose values the column type can hold is taken:
//
//	bool       bool
//	int        signed and unsigned integers
//	float      half, single and double floats, and integers up to 32 bit
//	decimal    decimals of any width and scale
//	string     utf8 and binary, in all their layouts
//	bytes      utf8 and binary, in all their layouts, and fixed-size binary
//	timestamp  timestamps of any unit and zone (all are instants in UTC), dates
//	duration   durations of any unit, times of day
//
// each also dictionary-encoded or as the storage of an extension type; a column of the null type is
// NULL throughout. A value that does not fit is a RowError: an int above 2^63-1, a time outside the range
// of microseconds or finer than them, a decimal with more digits than the type has, text that is not
// UTF-8.
type ArrowConverter struct {
	schema *dataflow.Schema
	cols   []arrowColumn
	errs   []RowError
}

// NewArrowConverter pairs the columns of to with those of from. Its error names every column that is
// missing or has a type that does not fit.
func NewArrowConverter(from *arrow.Schema, to *dataflow.Schema) (*ArrowConverter, error) {
	c := &ArrowConverter{schema: to, cols: make([]arrowColumn, len(to.Columns))}
	var errs []error
	for i := range to.Columns {
		want := &to.Columns[i]
		found := from.FieldIndices(want.Name)
		if len(found) == 0 {
			errs = append(errs, missingColumn(want.Name, from))
			continue
		}
		if len(found) > 1 {
			errs = append(errs, fmt.Errorf("column %q occurs %d times in the data", want.Name, len(found)))
			continue
		}
		field := from.Field(found[0])
		load := loaderFor(field.Type, want.Type)
		if load == nil {
			errs = append(errs, fmt.Errorf("column %q is %s in the data, which cannot be read as %s", want.Name, field.Type, want.Type))
			continue
		}
		c.cols[i] = arrowColumn{name: want.Name, index: found[0], col: i, typ: want.Type, load: load}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

func missingColumn(name string, from *arrow.Schema) error {
	known := make([]string, from.NumFields())
	for i, f := range from.Fields() {
		known[i] = f.Name
	}
	if near := dataflow.Nearest(name, known); near != "" {
		return fmt.Errorf("no column %q in the data; did you mean %q?", name, near)
	}
	return fmt.Errorf("no column %q in the data, which has %s", name, quoteAll(known))
}

func quoteAll(names []string) string {
	const most = 20
	var b strings.Builder
	for i, n := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", n)
	}
	if len(names) == 0 {
		return "none"
	}
	return b.String()
}

// Columns lists for each column of the stream type its position in the Arrow schema.
func (c *ArrowConverter) Columns() []int {
	indices := make([]int, len(c.cols))
	for i := range c.cols {
		indices[i] = c.cols[i].index
	}
	return indices
}

// Convert makes dst a view of rec's rows, without a selection; its watermarks are left alone. Where the
// layout permits, dst shares rec's memory; otherwise it uses memory of the converter's own. So it is
// valid until the next call or until rec is released, may not be written to, and is to be copied
// (CopyFrom) by who needs it longer.
//
// The values of rows listed in the RowErrors, which are in order of rows, are undefined. They are valid
// until the next call. An error says that rec itself is damaged or of another schema, or is ErrTooMuchText.
func (c *ArrowConverter) Convert(rec arrow.RecordBatch, dst *Batch) (bad []RowError, err error) {
	defer func() {
		r := recover()
		if r == ErrTooMuchText {
			err = ErrTooMuchText
		} else if r != nil {
			err = fmt.Errorf("damaged Arrow data: %v", r)
		}
	}()
	n := int(rec.NumRows())
	dst.Schema, dst.Len, dst.Sel = c.schema, n, nil
	if len(dst.Cols) != len(c.cols) {
		dst.Cols = make([]Vector, len(c.cols))
	}
	c.errs = c.errs[:0]
	for i := range c.cols {
		col := &c.cols[i]
		data := rec.Column(col.index).Data()
		if data.Len() != n {
			return nil, fmt.Errorf("damaged Arrow data: column %q has %d rows, the record batch has %d", col.name, data.Len(), n)
		}
		col.errs = &c.errs
		dst.Cols[i] = col.convert(data)
		if v := &dst.Cols[i]; len(v.Offsets) > 0 {
			boundText(n, int(v.Offsets[n])-int(v.Offsets[0]))
		}
	}
	slices.SortStableFunc(c.errs, func(a, b RowError) int { return a.Row - b.Row })
	return c.errs, nil
}

// FromArrow makes dst a view of all rows of rec as the stream type s, with the conversions and under
// the terms of ArrowConverter.Convert. A value that does not fit is an error.
func FromArrow(rec arrow.RecordBatch, s *dataflow.Schema, dst *Batch) error {
	c, err := NewArrowConverter(rec.Schema(), s)
	if err != nil {
		return err
	}
	bad, err := c.Convert(rec, dst)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		return fmt.Errorf("row %d: %s", bad[0].Row+1, bad[0].Reason)
	}
	return nil
}

// arrowColumn converts one column.
type arrowColumn struct {
	name  string
	index int // in the Arrow schema
	col   int // in the stream type
	typ   dataflow.Type
	load  loadFunc
	errs  *[]RowError

	own   Vector // memory for values that have to be copied
	valid Bitmap // likewise for validity

	// The dictionary that was converted last, and its values.
	dict     arrow.ArrayData
	dictVals Vector
	dictBad  []RowError
}

// loadFunc fills in the values of v from d; v.Valid is set, and v's other slices are nil.
type loadFunc func(c *arrowColumn, d arrow.ArrayData, v *Vector)

// convert gives d's values as a vector.
func (c *arrowColumn) convert(d arrow.ArrayData) Vector {
	v := Vector{Type: c.typ, Len: d.Len()}
	if d.NullN() != 0 && len(d.Buffers()) > 0 && d.Buffers()[0] != nil {
		v.Valid, c.valid = bitsOf(d, 0, c.valid)
		if v.Valid.Count(v.Len) == v.Len {
			v.Valid = nil
		}
	}
	c.load(c, d, &v)
	return v
}

// bad notes that the value of a row does not fit.
func (c *arrowColumn) bad(row int, value, problem string) {
	*c.errs = append(*c.errs, RowError{Row: row, Col: c.col, Value: value,
		Reason: fmt.Sprintf("column %q: %s %s", c.name, value, problem)})
}

// loadNull reads a column of the null type.
func loadNull(c *arrowColumn, d arrow.ArrayData, v *Vector) {
	c.own.Reset(c.typ, v.Len)
	if c.typ.Kind == dataflow.String || c.typ.Kind == dataflow.Bytes {
		clear(c.own.Offsets)
	}
	c.valid = GrowBitmap(c.valid, v.Len)
	c.valid.Fill(v.Len, false)
	*v = c.own
	v.Valid = c.valid
}

// loadDictionary reads a dictionary-encoded column: the dictionary once, then rows by index.
func loadDictionary(values loadFunc) loadFunc {
	return func(c *arrowColumn, d arrow.ArrayData, v *Vector) {
		dict := d.Dictionary()
		if c.dict != dict {
			c.convertDictionary(dict, values)
		}
		valid := v.Valid
		sel := c.indices(d, valid)
		if c.dictVals.Len == 0 {
			if valid == nil && v.Len > 0 || valid != nil && valid.Count(v.Len) > 0 {
				panic("an index into an empty dictionary")
			}
			loadNull(c, d, v)
			return
		}
		c.boundGather(sel)
		c.own.Gather(&c.dictVals, sel)
		*v = c.own
		// The gathered validity is that of dictionary entries; a row is valid if both are.
		if v.Valid == nil {
			v.Valid = valid
		} else if valid != nil {
			for i := range Words(v.Len) {
				v.Valid[i] &= valid[i]
			}
		}
		if len(c.dictBad) > 0 {
			c.reportEntries(sel, v)
		}
	}
}

// boundText ends a conversion that gives more than one row and too much text for them.
func boundText(rows, size int) {
	if size > math.MaxInt32 || size > MaxDataBytes && rows > 1 {
		panic(ErrTooMuchText)
	}
}

// boundGather is boundText for the text that the dictionary's entries amount to.
func (c *arrowColumn) boundGather(sel []int32) {
	offsets := c.dictVals.Offsets
	if c.typ.Kind != dataflow.String && c.typ.Kind != dataflow.Bytes {
		return
	}
	size := 0
	for _, s := range sel {
		size += int(offsets[s+1] - offsets[s])
	}
	boundText(len(sel), size)
}

// reportEntries notes the rows whose dictionary entry does not fit.
func (c *arrowColumn) reportEntries(sel []int32, v *Vector) {
	for i, s := range sel {
		at, found := slices.BinarySearchFunc(c.dictBad, int(s), func(e RowError, row int) int { return e.Row - row })
		if found && !v.IsNull(i) {
			e := c.dictBad[at]
			*c.errs = append(*c.errs, RowError{Row: i, Col: c.col, Value: e.Value, Reason: e.Reason})
		}
	}
}

// convertDictionary converts a dictionary's values to dictVals.
func (c *arrowColumn) convertDictionary(dict arrow.ArrayData, values loadFunc) {
	inner := arrowColumn{name: c.name, col: c.col, typ: c.typ, load: values, errs: &[]RowError{}}
	c.dictVals = inner.convert(dict)
	c.dict, c.dictBad = dict, *inner.errs
}

// indices gives a dictionary column's indices, checked; those of rows that are not valid are zero.
func (c *arrowColumn) indices(d arrow.ArrayData, valid Bitmap) []int32 {
	sel := make([]int32, d.Len())
	switch d.DataType().(*arrow.DictionaryType).IndexType.ID() {
	case arrow.INT8:
		copyIndices(sel, valuesOf[int8](d, 0))
	case arrow.UINT8:
		copyIndices(sel, valuesOf[uint8](d, 0))
	case arrow.INT16:
		copyIndices(sel, valuesOf[int16](d, 0))
	case arrow.UINT16:
		copyIndices(sel, valuesOf[uint16](d, 0))
	case arrow.INT32:
		copyIndices(sel, valuesOf[int32](d, 0))
	case arrow.UINT32:
		copyIndices(sel, valuesOf[uint32](d, 0))
	case arrow.INT64:
		copyIndices(sel, valuesOf[int64](d, 0))
	default:
		copyIndices(sel, valuesOf[uint64](d, 0))
	}
	n := int32(c.dictVals.Len)
	for i, s := range sel {
		if valid != nil && !valid.Get(i) {
			sel[i] = 0
		} else if s < 0 || s >= n && n > 0 {
			panic(fmt.Sprintf("index %d into a dictionary of %d values", s, n))
		}
	}
	return sel
}

// copyIndices copies indices, those out of int32's range as -1.
func copyIndices[T integer](dst []int32, src []T) {
	for i, x := range src {
		dst[i] = int32(x)
		if T(dst[i]) != x || x < 0 {
			dst[i] = -1
		}
	}
}

// loadExtension reads an extension type's storage.
func loadExtension(dt arrow.DataType, storage loadFunc) loadFunc {
	return func(c *arrowColumn, d arrow.ArrayData, v *Vector) {
		inner := array.NewData(dt, d.Len(), d.Buffers(), d.Children(), d.NullN(), d.Offset())
		if dict, ok := d.Dictionary().(*array.Data); ok && dict != nil {
			inner.SetDictionary(dict)
		}
		storage(c, inner, v)
	}
}
