package dataflow

import (
	"fmt"
	"strings"
)

// Kind is the family of a column type.
type Kind uint8

// The kinds. Invalid is the type of something that has already been reported as wrong: whatever is
// computed from it is Invalid too and causes no further error.
const (
	Invalid Kind = iota
	Bool
	Int       // 64 bit, signed
	Float     // IEEE 754, 64 bit
	Decimal   // exact, up to 38 digits
	String    // UTF-8
	Bytes     // any bytes
	Timestamp // microseconds since 1970-01-01T00:00:00Z
	Duration  // microseconds
	Null      // the type of a bare NULL; no column has it
)

var kindNames = [...]string{"invalid", "bool", "int", "float", "decimal", "string", "bytes", "timestamp", "duration", "null"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Type is the type of a column or an expression. Types are compared with ==.
type Type struct {
	Kind Kind
	// Precision is the number of digits of a decimal (1..38) and Scale how many of them follow the
	// point (0..Precision). Both are zero for every other kind.
	Precision, Scale uint8
}

// MaxPrecision is the largest number of decimal digits that a decimal has.
const MaxPrecision = 38

// The types that need no parameters.
var (
	BoolType      = Type{Kind: Bool}
	IntType       = Type{Kind: Int}
	FloatType     = Type{Kind: Float}
	StringType    = Type{Kind: String}
	BytesType     = Type{Kind: Bytes}
	TimestampType = Type{Kind: Timestamp}
	DurationType  = Type{Kind: Duration}
	NullType      = Type{Kind: Null}
)

// DecimalType is decimal(precision, scale).
func DecimalType(precision, scale uint8) Type {
	return Type{Kind: Decimal, Precision: precision, Scale: scale}
}

// String gives the type as it is written in a spec: "int", "decimal(10,2)".
func (t Type) String() string {
	if t.Kind == Decimal {
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	}
	return t.Kind.String()
}

// Column is one named, typed column of a stream.
type Column struct {
	Name      string
	Type      Type
	Nullable  bool
	EventTime bool // the stream's event time; a timestamp column, at most one per schema
}

// Schema is the type of a stream: its columns in order. A Schema is not changed once it is built.
type Schema struct {
	Columns []Column
}

// Index returns the position of the named column, or -1.
func (s *Schema) Index(name string) int {
	for i := range s.Columns {
		if s.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// EventTime returns the position of the event-time column, or -1 if there is none.
func (s *Schema) EventTime() int {
	for i := range s.Columns {
		if s.Columns[i].EventTime {
			return i
		}
	}
	return -1
}

// Names returns the column names in order.
func (s *Schema) Names() []string {
	names := make([]string, len(s.Columns))
	for i := range s.Columns {
		names[i] = s.Columns[i].Name
	}
	return names
}

// String gives the schema on one line: "(date timestamp eventtime, delay int, origin string not null)".
func (s *Schema) String() string {
	var b strings.Builder
	b.WriteByte('(')
	for i, c := range s.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.String())
	}
	b.WriteByte(')')
	return b.String()
}

// String gives the column as it stands in a schema: "origin string not null".
func (c Column) String() string {
	s := c.Name + " " + c.Type.String()
	if c.EventTime {
		s += " eventtime"
	}
	if !c.Nullable {
		s += " not null"
	}
	return s
}
