package naive

import (
	"math"
	"math/big"
	"testing"
)

// The reference needs no reference of its own, but what it does by hand is held to values by hand.

func TestTextForms(t *testing.T) {
	for _, c := range []struct {
		t    Type
		text string
		want string // "" where the text is not one of the type
	}{
		{BoolType, "T", "true"}, {BoolType, "0", "false"}, {BoolType, "yes", ""},
		{IntType, "+5", "5"}, {IntType, "-9223372036854775808", "-9223372036854775808"}, {IntType, "9223372036854775808", ""}, {IntType, "1_000", ""}, {IntType, "", ""},
		{FloatType, "1e3", "1000"}, {FloatType, ".5", "0.5"}, {FloatType, "1e21", "1e+21"}, {FloatType, "5e-8", "5e-8"}, {FloatType, "1e-7", "0.0000001"}, {FloatType, "0x10", ""}, {FloatType, "inf", ""},
		{DecimalType(5, 2), "1.50", "1.5"}, {DecimalType(5, 2), "-0.05", "-0.05"}, {DecimalType(5, 2), "1.505", ""}, {DecimalType(5, 2), "1000", ""}, {DecimalType(5, 2), "1.5e1", "15"}, {DecimalType(5, 0), "100", "100"},
		{BytesType, "aGk=", "aGk="}, {BytesType, "aGk", ""},
		{TimestampType, "2001-01-01", "2001-01-01T00:00:00Z"}, {TimestampType, "2001-01-01 06:55", "2001-01-01T06:55:00Z"},
		{TimestampType, "1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.5Z"}, {TimestampType, "978332100000", "2001-01-01T06:55:00Z"},
		{TimestampType, "2001-01-01T00:00:00+01:30", "2000-12-31T22:30:00Z"}, {TimestampType, "2001-02-29", ""}, {TimestampType, "0000-01-01", ""}, {TimestampType, "2001-01-01T24:00:00Z", ""},
		{DurationType, "1h2m3.5s", "1h2m3.5s"}, {DurationType, "2d", "48h"}, {DurationType, "-90s", "-1m30s"}, {DurationType, "0s", "0s"}, {DurationType, "1s1h", ""}, {DurationType, "0.5us", ""}, {DurationType, "-", ""},
	} {
		v, err := parse(c.text, c.t)
		if c.want == "" {
			if err == nil {
				t.Errorf("%q was read as %s %s", c.text, c.t, v.Show(c.t))
			}
			continue
		}
		if err != nil {
			t.Errorf("%q was not read as %s: %v", c.text, c.t, err)
			continue
		}
		if got, _ := format(v, c.t); got != c.want {
			t.Errorf("%q as %s is written %s, not %s", c.text, c.t, got, c.want)
		}
	}
	if got := formatTimestamp(math.MinInt64); got != "-290308-12-21T19:59:05.224192Z" {
		t.Errorf("the first timestamp is written %s", got)
	}
	if got := formatDuration(math.MinInt64); got != "-2562047788h54.775808s" {
		t.Errorf("the shortest duration is written %s", got)
	}
}

func TestRoundingHalves(t *testing.T) {
	for _, c := range []struct{ num, den, want int64 }{{5, 2, 3}, {-5, 2, -3}, {7, 3, 2}, {-7, 3, -2}, {8, 3, 3}, {1, 2, 1}, {-1, 2, -1}, {0, 1, 0}} {
		if got := roundHalfAway(big.NewRat(c.num, c.den)); got.Int64() != c.want {
			t.Errorf("%d/%d is rounded to %v, not %d", c.num, c.den, got, c.want)
		}
	}
}

func TestSQLHasTheParenthesesItNeeds(t *testing.T) {
	a, b, c := Column("a", 0, IntType), Column("b", 1, IntType), Column("c", 2, IntType)
	p, q := Column("p", 3, BoolType), Column("q", 4, BoolType)
	for _, x := range []struct {
		n    *Node
		want string
	}{
		{New("*", New("+", a, b), c), "(a + b) * c"},
		{New("+", New("*", a, b), c), "a * b + c"},
		{New("-", a, New("-", b, c)), "a - (b - c)"},
		{New("and", p, New("or", p, q)), "p AND (p OR q)"},
		{New("not", New("and", p, q)), "NOT (p AND q)"},
		{New("not", New("=", a, b)), "NOT a = b"},
		{New("=", New("=", a, b), p), "(a = b) = p"},
		{New("is null", New("=", a, b)), "a = b IS NULL"},
		{New("between", a, New("+", b, c), c), "a BETWEEN b + c AND c"},
		{New("neg", New("neg", a)), "- - a"},
		{New("neg", New("+", a, b)), "- (a + b)"},
		{Literal(StringType, Value{Text: "it's"}), "'it''s'"},
		{Literal(FloatType, Value{Float: 1000}), "1e+03"},
	} {
		if got := x.n.SQL(); got != x.want {
			t.Errorf("got %s, want %s", got, x.want)
		}
	}
}

func TestOperandsAreLazy(t *testing.T) {
	fails := New("=", New("/", Literal(IntType, Value{Int: 1}), Literal(IntType, Value{})), Literal(IntType, Value{}))
	no := Literal(BoolType, Value{})
	if _, err := fails.Eval(nil); err == nil {
		t.Fatal("1 / 0 gives a value")
	}
	if v, err := New("and", no, fails).Eval(nil); err != nil || v.Bool {
		t.Errorf("FALSE AND 1 / 0 = 0 is %v, %v", v, err)
	}
	if _, err := New("and", fails, no).Eval(nil); err == nil {
		t.Error("1 / 0 = 0 AND FALSE gives a value")
	}
	unknown := Literal(BoolType, Value{Null: true})
	if _, err := New("and", unknown, fails).Eval(nil); err == nil {
		t.Error("NULL AND 1 / 0 = 0 gives a value")
	}
	if holds, err := New("and", unknown, fails).Holds(nil); err != nil || holds {
		t.Errorf("NULL AND 1 / 0 = 0 as a condition is %v, %v", holds, err)
	}
	if _, err := New("not", New("and", unknown, fails)).Holds(nil); err == nil {
		t.Error("NOT (NULL AND 1 / 0 = 0) as a condition gives a value")
	}
	if v, err := New("case", no, fails, no).Eval(nil); err != nil || v.Bool {
		t.Errorf("CASE WHEN FALSE THEN 1 / 0 = 0 ELSE FALSE END is %v, %v", v, err)
	}
}
