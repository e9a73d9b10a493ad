package dataflow_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
)

func TestParseType(t *testing.T) {
	for text, want := range map[string]dataflow.Type{
		"bool": dataflow.BoolType, "int": dataflow.IntType, "float": dataflow.FloatType, "string": dataflow.StringType,
		"bytes": dataflow.BytesType, "timestamp": dataflow.TimestampType, "duration": dataflow.DurationType,
		"decimal": dataflow.DecimalType(38, 9), "decimal(10)": dataflow.DecimalType(10, 0),
		"decimal(10,2)": dataflow.DecimalType(10, 2), "decimal( 38 , 38 )": dataflow.DecimalType(38, 38),
		"decimal(1,0)": dataflow.DecimalType(1, 0),
	} {
		if got, err := dataflow.ParseType(text); err != nil || got != want {
			t.Errorf("ParseType(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":               `unknown type ""`,
		"Int":            `unknown type "Int"`,
		"null":           `unknown type "null"`,
		"invalid":        `unknown type "invalid"`,
		"decimal(":       `no closing parenthesis`,
		"decimal(10,2":   `no closing parenthesis`,
		"decimal()":      `the precision of a decimal is 1 to 38`,
		"decimal(0)":     `the precision of a decimal is 1 to 38`,
		"decimal(39)":    `the precision of a decimal is 1 to 38`,
		"decimal(300,1)": `the precision of a decimal is 1 to 38`,
		"decimal(5,6)":   `the scale of a decimal is 0 to its precision, here 5`,
		"decimal(5,)":    `the scale`,
		"decimal(5,-1)":  `the scale`,
		"decimal(5,1,1)": `the scale`,
	} {
		if got, err := dataflow.ParseType(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseType(%q) = %v, %v; want an error with %q", text, got, err, want)
		}
	}
}

// Every type that prints can be read again.
func TestTypeRoundTrip(t *testing.T) {
	types := []dataflow.Type{dataflow.BoolType, dataflow.IntType, dataflow.FloatType, dataflow.StringType,
		dataflow.BytesType, dataflow.TimestampType, dataflow.DurationType}
	for p := uint8(1); p <= dataflow.MaxPrecision; p++ {
		for s := uint8(0); s <= p; s++ {
			types = append(types, dataflow.DecimalType(p, s))
		}
	}
	for _, want := range types {
		if got, err := dataflow.ParseType(want.String()); err != nil || got != want {
			t.Errorf("ParseType(%q) = %v, %v", want, got, err)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]int64{
		"250ms": 250_000, "10s": 10_000_000, "5m": 300_000_000, "1h": 3_600_000_000, "2d": 172_800_000_000,
		"0s": 0, "7us": 7, "7µs": 7, "1h30m": 5_400_000_000, "1h2m3.5s": 3_723_500_000, "-5s": -5_000_000,
		"0.25ms": 250, "1.000001s": 1_000_001, "9223372036854775807us": math.MaxInt64, "-9223372036854775808us": math.MinInt64,
	} {
		if got, err := dataflow.ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "not a duration", "-": "not a duration", "s": "not a duration", "5": "needs a unit", "5x": "needs a unit",
		"5 s": "needs a unit", " 5s": "not a duration", "5sx": "not a duration", "1.2.3s": "not a number", ".s": "not a number", "5S": "needs a unit",
		"0.5us": "finer than a microsecond", "1.0000001s": "finer than a microsecond", "--5s": "not a duration",
		"9223372036854775808us": "too long", "106751992d": "too long", strings.Repeat("9", 10_000) + "d": "not a duration",
	} {
		if got, err := dataflow.ParseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDuration(%q) = %d, %v; want an error with %q", text, got, err, want)
		}
	}
}

// A duration is the sum of its parts.
func TestParseDurationSum(t *testing.T) {
	units := map[string]int64{"us": 1, "ms": 1e3, "s": 1e6, "m": 6e7, "h": 36e8, "d": 864e8}
	rapid.Check(t, func(t *rapid.T) {
		var text string
		var want int64
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			unit := rapid.SampledFrom([]string{"us", "ms", "s", "m", "h", "d"}).Draw(t, "unit")
			n := rapid.Int64Range(0, 1_000_000).Draw(t, "n")
			text += fmt.Sprint(n, unit)
			want += n * units[unit]
		}
		if got, err := dataflow.ParseDuration(text); err != nil || got != want {
			t.Fatalf("ParseDuration(%q) = %d, %v; want %d", text, got, err, want)
		}
	})
}
