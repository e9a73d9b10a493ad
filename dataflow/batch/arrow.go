package batch

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"sluice/dataflow"
)

// EventTimeKey is the metadata key that marks an Arrow field as the event time of its stream; its
// value is then "true".
const EventTimeKey = "sluice:eventtime"

// ArrowSchema gives the Arrow schema of a stream: bool, int64, float64, decimal128, utf8, binary,
// timestamp[us, UTC] and duration[us].
func ArrowSchema(s *dataflow.Schema) *arrow.Schema {
	fields := make([]arrow.Field, len(s.Columns))
	for i, c := range s.Columns {
		fields[i] = arrow.Field{Name: c.Name, Type: arrowType(c.Type), Nullable: c.Nullable}
		if c.EventTime {
			fields[i].Metadata = arrow.NewMetadata([]string{EventTimeKey}, []string{"true"})
		}
	}
	return arrow.NewSchema(fields, nil)
}

func arrowType(t dataflow.Type) arrow.DataType {
	switch t.Kind {
	case dataflow.Bool:
		return arrow.FixedWidthTypes.Boolean
	case dataflow.Int:
		return arrow.PrimitiveTypes.Int64
	case dataflow.Float:
		return arrow.PrimitiveTypes.Float64
	case dataflow.Decimal:
		return &arrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
	case dataflow.String:
		return arrow.BinaryTypes.String
	case dataflow.Bytes:
		return arrow.BinaryTypes.Binary
	case dataflow.Timestamp:
		return arrow.FixedWidthTypes.Timestamp_us
	case dataflow.Duration:
		return arrow.FixedWidthTypes.Duration_us
	}
	return arrow.Null
}

// SchemaFromArrow gives the stream type that holds the columns of an Arrow schema. Where columns have
// an Arrow type that no column type holds, such as a list, the error names all of them and the schema
// has the others; it is nil only if none is left.
func SchemaFromArrow(a *arrow.Schema) (*dataflow.Schema, error) {
	s := &dataflow.Schema{}
	var errs []error
	for _, f := range a.Fields() {
		t, ok := columnType(f.Type)
		if !ok {
			errs = append(errs, fmt.Errorf("column %q: Arrow type %s has no column type", f.Name, f.Type))
			continue
		}
		c := dataflow.Column{Name: f.Name, Type: t, Nullable: f.Nullable}
		if v, ok := f.Metadata.GetValue(EventTimeKey); ok && v == "true" && t.Kind == dataflow.Timestamp && s.EventTime() < 0 {
			c.EventTime = true
		}
		s.Columns = append(s.Columns, c)
	}
	if len(s.Columns) == 0 && len(errs) > 0 {
		s = nil
	}
	return s, errors.Join(errs...)
}

// columnType is the column type that an Arrow type is read as when nothing else is asked for.
func columnType(dt arrow.DataType) (dataflow.Type, bool) {
	switch dt := dt.(type) {
	case *arrow.DictionaryType:
		return columnType(dt.ValueType)
	case arrow.ExtensionType:
		return columnType(dt.StorageType())
	case arrow.DecimalType:
		return decimalColumn(dt.GetPrecision(), dt.GetScale())
	}
	switch dt.ID() {
	case arrow.BOOL:
		return dataflow.BoolType, true
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64:
		return dataflow.IntType, true
	case arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64:
		return dataflow.FloatType, true
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW, arrow.NULL:
		return dataflow.StringType, true
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW, arrow.FIXED_SIZE_BINARY:
		return dataflow.BytesType, true
	case arrow.TIMESTAMP, arrow.DATE32, arrow.DATE64:
		return dataflow.TimestampType, true
	case arrow.DURATION, arrow.TIME32, arrow.TIME64:
		return dataflow.DurationType, true
	}
	return dataflow.Type{}, false
}

// decimalColumn is the decimal type for an Arrow precision and scale, which unlike ours may be up to
// 76 and negative.
func decimalColumn(precision, scale int32) (dataflow.Type, bool) {
	if scale < 0 {
		precision, scale = precision-scale, 0
	}
	if scale > dataflow.MaxPrecision || precision < 1 {
		return dataflow.Type{}, false
	}
	precision = min(max(precision, scale), dataflow.MaxPrecision)
	return dataflow.DecimalType(uint8(precision), uint8(scale)), true
}

// ToArrow gives the selected rows of b as an Arrow record batch of the given schema, which must be
// ArrowSchema(b.Schema); nil makes it. Without a selection nothing is copied: the record is then valid
// for as long as b is neither changed nor reused. With a selection the rows are copied to memory of
// the record's own. The record need not be released.
func ToArrow(b *Batch, schema *arrow.Schema) arrow.RecordBatch {
	if schema == nil {
		schema = ArrowSchema(b.Schema)
	}
	if b.Sel != nil {
		dense := &Batch{}
		dense.CopyFrom(b)
		b = dense
	}
	cols := make([]arrow.Array, len(b.Cols))
	for i := range b.Cols {
		v, nulls := &b.Cols[i], 0
		if v.Valid != nil {
			nulls = b.Len - v.Valid.Count(b.Len)
		}
		data := array.NewData(schema.Field(i).Type, b.Len, arrowBuffers(v, b.Len), nil, nulls, 0)
		cols[i] = array.MakeFromData(data)
	}
	return array.NewRecordBatch(schema, cols, int64(b.Len))
}

// arrowBuffers wraps the memory of the first n rows of v.
func arrowBuffers(v *Vector, n int) []*memory.Buffer {
	valid := wrapBits(v.Valid, n)
	switch v.Type.Kind {
	case dataflow.Bool:
		return []*memory.Buffer{valid, wrapBits(v.Bits, n)}
	case dataflow.Float:
		return []*memory.Buffer{valid, wrap(v.Floats[:n])}
	case dataflow.Decimal:
		return []*memory.Buffer{valid, wrap(v.Decimals[:n])}
	case dataflow.String, dataflow.Bytes:
		return []*memory.Buffer{valid, wrap(v.Offsets[:n+1]), memory.NewBufferBytes(v.Data)}
	default:
		return []*memory.Buffer{valid, wrap(v.Ints[:n])}
	}
}

func wrapBits(m Bitmap, n int) *memory.Buffer {
	if m == nil {
		return nil
	}
	return memory.NewBufferBytes(asBytes(m[:Words(n)])[:(n+7)/8])
}

func wrap[T any](s []T) *memory.Buffer { return memory.NewBufferBytes(asBytes(s)) }

// asBytes is the memory of s.
func asBytes[T any](s []T) []byte {
	if len(s) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}
