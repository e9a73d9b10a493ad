package naive

import (
	"fmt"
	"math/big"
)

// Kind is the family of a type.
type Kind int

// The kinds, in the order in which the language lists its types. Null is the type of a bare NULL.
const (
	Bool Kind = iota
	Int
	Float
	Decimal
	String
	Bytes
	Timestamp
	Duration
	Null
)

// KindNames are the names of the kinds.
var KindNames = []string{"bool", "int", "float", "decimal", "string", "bytes", "timestamp", "duration", "null"}

// Type is the type of an expression. Only decimals have a precision (digits in all) and a scale (digits
// after the point).
type Type struct {
	Kind             Kind
	Precision, Scale int
}

// The types without parameters.
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

// DecimalType is decimal(precision,scale).
func DecimalType(precision, scale int) Type { return Type{Decimal, precision, scale} }

func (t Type) String() string {
	if t.Kind == Decimal {
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	}
	return KindNames[t.Kind]
}

// Value is a value of any type, whose type says which field holds it.
type Value struct {
	Null  bool
	Bool  bool
	Int   int64    // int; timestamp and duration in microseconds
	Float float64  // float
	Dec   *big.Int // decimal, times 10 to the power of its type's scale
	Text  string   // string and bytes
}

// null is NULL of any type.
var null = Value{Null: true}

func boolean(b bool) Value { return Value{Bool: b} }

func text(s string) Value { return Value{Text: s} }

// Show writes v, of type t, for messages.
func (v Value) Show(t Type) string {
	if v.Null {
		return "NULL"
	}
	s, _ := format(v, t)
	if t.Kind == String || t.Kind == Bytes {
		return fmt.Sprintf("%q", v.Text)
	}
	return s
}

// RowError says why an expression has no value for a row.
type RowError string

func (e RowError) Error() string { return string(e) }

func fail(format string, args ...any) (Value, error) {
	return Value{}, RowError(fmt.Sprintf(format, args...))
}
