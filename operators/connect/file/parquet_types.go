package file

import (
	"bytes"
	"encoding/base64"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"sluice/dataflow/batch"
)

// parquetField is a column of a Parquet file.
type parquetField struct {
	name string
	leaf int            // its place among the file's leaf columns
	typ  arrow.DataType // what its values are decoded to
	desc *schema.Column
	err  error // why it cannot be read, or nil
}

// parquetFields lists the columns of a Parquet file. Nested ones, and those of an unknown type, have an
// error.
func parquetFields(meta *metadata.FileMetaData) []parquetField {
	root := meta.Schema.Root()
	origin := originFields(meta)
	fields := make([]parquetField, root.NumFields())
	leaf := make(map[string]int)
	for i := range meta.Schema.NumColumns() {
		leaf[meta.Schema.Column(i).Path()] = i
	}
	for i := range fields {
		node := root.Field(i)
		f := &fields[i]
		f.name = node.Name()
		at, found := leaf[node.Path()]
		if node.Type() != schema.Primitive || node.RepetitionType() == parquet.Repetitions.Repeated || !found {
			f.err = fmt.Errorf("column %q is nested or a list, which no column type holds", f.name)
			continue
		}
		f.leaf, f.desc = at, meta.Schema.Column(at)
		if f.typ = parquetType(f.desc); f.typ == nil {
			f.err = fmt.Errorf("column %q is %s (%s), which no column type holds", f.name, f.desc.PhysicalType(), f.desc.LogicalType())
			continue
		}
		if d, ok := origin[f.name].Type.(*arrow.DurationType); ok && f.typ.ID() == arrow.INT64 {
			f.typ = d
		}
	}
	return fields
}

// arrowFields is the Arrow schema of those fields that can be read.
func arrowFields(fields []parquetField, meta *metadata.FileMetaData) *arrow.Schema {
	origin := originFields(meta)
	var out []arrow.Field
	for i := range fields {
		f := &fields[i]
		if f.err != nil {
			continue
		}
		field := arrow.Field{Name: f.name, Type: f.typ, Nullable: f.desc.MaxDefinitionLevel() > 0}
		if v, ok := origin[f.name].Metadata.GetValue(batch.EventTimeKey); ok {
			field.Metadata = arrow.NewMetadata([]string{batch.EventTimeKey}, []string{v})
		}
		out = append(out, field)
	}
	return arrow.NewSchema(out, nil)
}

// arrowSchemaKey is under which Arrow's writers leave the Arrow schema of a Parquet file.
const arrowSchemaKey = "ARROW:schema"

// originFields gives the fields of the Arrow schema that Arrow's writers leave in a Parquet file; none
// if there is none or it is damaged, for the file can be read without.
func originFields(meta *metadata.FileMetaData) (fields map[string]arrow.Field) {
	defer func() {
		if recover() != nil {
			fields = nil
		}
	}()
	text := meta.KeyValueMetadata().FindValue(arrowSchemaKey)
	if text == nil {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return nil
	}
	r, err := readArrow(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil
	}
	fields = make(map[string]arrow.Field)
	for _, f := range r.Schema().Fields() {
		fields[f.Name] = f
	}
	return fields
}

// parquetType is the Arrow type that a column's values are decoded to; nil if there is none.
func parquetType(c *schema.Column) arrow.DataType {
	switch c.PhysicalType() {
	case parquet.Types.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case parquet.Types.Int32:
		return parquetInt32(c.LogicalType())
	case parquet.Types.Int64:
		return parquetInt64(c.LogicalType())
	case parquet.Types.Int96:
		return arrow.FixedWidthTypes.Timestamp_us
	case parquet.Types.Float:
		return arrow.PrimitiveTypes.Float32
	case parquet.Types.Double:
		return arrow.PrimitiveTypes.Float64
	}
	switch t := c.LogicalType().(type) {
	case schema.DecimalLogicalType:
		if t.Precision() > 38 || c.TypeLength() > 16 {
			return &arrow.Decimal256Type{Precision: t.Precision(), Scale: t.Scale()}
		}
		return &arrow.Decimal128Type{Precision: t.Precision(), Scale: t.Scale()}
	case schema.Float16LogicalType:
		return arrow.FixedWidthTypes.Float16
	case schema.StringLogicalType, schema.EnumLogicalType, schema.JSONLogicalType:
		return arrow.BinaryTypes.String
	case schema.IntervalLogicalType:
		return nil
	}
	return arrow.BinaryTypes.Binary
}

func parquetInt32(logical schema.LogicalType) arrow.DataType {
	switch t := logical.(type) {
	case schema.IntLogicalType:
		if !t.IsSigned() {
			return arrow.PrimitiveTypes.Uint32
		}
	case schema.DateLogicalType:
		return arrow.FixedWidthTypes.Date32
	case schema.TimeLogicalType:
		return arrow.FixedWidthTypes.Time32ms
	case schema.DecimalLogicalType:
		return &arrow.Decimal32Type{Precision: t.Precision(), Scale: t.Scale()}
	case schema.NullLogicalType:
		return arrow.Null
	}
	return arrow.PrimitiveTypes.Int32
}

func parquetInt64(logical schema.LogicalType) arrow.DataType {
	switch t := logical.(type) {
	case schema.IntLogicalType:
		if !t.IsSigned() {
			return arrow.PrimitiveTypes.Uint64
		}
	case schema.TimestampLogicalType:
		return &arrow.TimestampType{Unit: parquetUnit(t.TimeUnit())}
	case schema.TimeLogicalType:
		return &arrow.Time64Type{Unit: parquetUnit(t.TimeUnit())}
	case schema.DecimalLogicalType:
		return &arrow.Decimal64Type{Precision: t.Precision(), Scale: t.Scale()}
	}
	return arrow.PrimitiveTypes.Int64
}

func parquetUnit(u schema.TimeUnitType) arrow.TimeUnit {
	switch u {
	case schema.TimeUnitMillis:
		return arrow.Millisecond
	case schema.TimeUnitNanos:
		return arrow.Nanosecond
	}
	return arrow.Microsecond
}
