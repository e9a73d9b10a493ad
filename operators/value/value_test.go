package value

import (
	"encoding/base64"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBool(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "t": true, "1": true, "TRUE": true, "T": true,
		"false": false, "f": false, "0": false, "False": false, "F": false} {
		if got, err := ParseBool([]byte(text)); err != nil || got != want {
			t.Errorf("ParseBool(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "yes", "2", "tru", "truee", " true", "fals", "falsy", "10"} {
		if _, err := ParseBool([]byte(text)); err != ErrBool {
			t.Errorf("ParseBool(%q): %v", text, err)
		}
	}
	if got := string(AppendBool(AppendBool(nil, true), false)); got != "truefalse" {
		t.Errorf("AppendBool gives %q", got)
	}
}

func TestIntAgainstStrconv(t *testing.T) {
	texts := rapid.OneOf(rapid.StringMatching(`[-+]?[0-9]{0,25}`), rapid.StringMatching(`[-+]?[0-9]{0,20}[^0-9]?[0-9]{0,3}`),
		rapid.Custom(func(t *rapid.T) string { return strconv.FormatInt(rapid.Int64().Draw(t, "v"), 10) }),
		rapid.SampledFrom([]string{"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
			"18446744073709551615", "18446744073709551616", "-18446744073709551616", "000000000000000000000000001", "-", "+"}))
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		want, wantErr := strconv.ParseInt(text, 10, 64)
		got, err := ParseInt([]byte(text))
		switch {
		case wantErr == nil:
			if err != nil || got != want {
				t.Fatalf("ParseInt(%q) = %v, %v", text, got, err)
			}
			if again := string(AppendInt(nil, got)); again != strconv.FormatInt(want, 10) {
				t.Fatalf("AppendInt(%d) = %q", got, again)
			}
		case errors.Is(wantErr, strconv.ErrRange):
			// strconv stops at the digit that is too much, whatever follows.
			if digits := strings.Trim(text, "0123456789+-") == ""; digits && err != ErrIntRange || err == nil {
				t.Fatalf("ParseInt(%q): %v, want out of range", text, err)
			}
		case err != ErrInt:
			t.Fatalf("ParseInt(%q): %v, want a syntax error", text, err)
		}
	})
}

var floats = rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1e6, 1e6),
	rapid.Custom(func(t *rapid.T) float64 { return math.Float64frombits(rapid.Uint64().Draw(t, "bits")) }),
	rapid.Custom(func(t *rapid.T) float64 {
		m := rapid.Int64Range(-1<<53, 1<<53).Draw(t, "m") >> rapid.IntRange(0, 50).Draw(t, "shift")
		return float64(m) / math.Pow10(rapid.IntRange(0, 12).Draw(t, "k"))
	}))

func TestFloatRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := floats.Draw(t, "v")
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		text := AppendFloat(nil, v)
		got, err := ParseFloat(text)
		if err != nil || math.Float64bits(got) != math.Float64bits(v) {
			t.Fatalf("%v is written %q and read as %v, %v", v, text, got, err)
		}
		a := math.Abs(v)
		plain := a == 0 || a >= 1e-7 && a < 1e21
		if want := strconv.FormatFloat(v, 'f', -1, 64); plain && string(text) != want {
			t.Fatalf("%v is written %q, want %q", v, text, want)
		}
		if !plain && !strings.ContainsRune(string(text), 'e') {
			t.Fatalf("%v is written %q, without an exponent", v, text)
		}
	})
}

func TestFloatForms(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", -1.5: "-1.5", 1e-7: "0.0000001", 1.5e-7: "0.00000015", 9e-8: "9e-8",
		1e20: "100000000000000000000", 1e21: "1e+21", 1.25e100: "1.25e+100", 5e-324: "5e-324", 0.1: "0.1", 0.3: "0.3",
		123456.789: "123456.789", 1e15: "1000000000000000", 999999999999999.9: "999999999999999.9"} {
		if got := string(AppendFloat(nil, v)); got != want {
			t.Errorf("AppendFloat(%g) = %q, want %q", v, got, want)
		}
	}
	for _, text := range []string{"", "-", ".", "+.", "e5", "1e", "1e+", "1_0", "0x1p4", "NaN", "inf", "Infinity", " 1", "1 ", "1.2.3", "1,5", "--1"} {
		if _, err := ParseFloat([]byte(text)); err != ErrFloat {
			t.Errorf("ParseFloat(%q): %v", text, err)
		}
	}
	for _, text := range []string{"1e309", "-1e400", "1" + strings.Repeat("0", 400), "1e99999999999999999999"} {
		if _, err := ParseFloat([]byte(text)); err != ErrFloatRange {
			t.Errorf("ParseFloat(%q): %v", text, err)
		}
	}
}

func TestParseFloatAgainstStrconv(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,30})([eE][-+]?[0-9]{1,3})?`).Draw(t, "text")
		want, wantErr := strconv.ParseFloat(text, 64)
		got, err := ParseFloat([]byte(text))
		if (err == nil) != (wantErr == nil) || err == nil && math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("ParseFloat(%q) = %v, %v, want %v, %v", text, got, err, want, wantErr)
		}
	})
}

func TestBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOf(rapid.Byte()).Draw(t, "v")
		text := AppendBytes([]byte("x"), v)
		if want := "x" + base64.StdEncoding.EncodeToString(v); string(text) != want {
			t.Fatalf("AppendBytes = %q, want %q", text, want)
		}
		got, err := ParseBytes(text[1:])
		if err != nil || string(got) != string(v) {
			t.Fatalf("ParseBytes(%q) = %q, %v", text[1:], got, err)
		}
	})
	for _, text := range []string{"a", "ab", "abc", "a===", "ab\ncd", "ab==cd", "a-_b", "YR=="} {
		dst, err := AppendParsedBytes([]byte("x"), []byte(text))
		if err != ErrBytes || string(dst) != "x" {
			t.Errorf("AppendParsedBytes(%q) = %q, %v", text, dst, err)
		}
	}
}

func TestDecimal(t *testing.T) {
	n, err := ParseDecimal([]byte("-12.50"), 10, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(AppendDecimal(nil, n, 3)); got != "-12.5" {
		t.Errorf("-12.50 is written %q", got)
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64().Draw(t, "v") >> rapid.IntRange(0, 63).Draw(t, "shift")
		text := AppendDuration(nil, v)
		got, err := ParseDuration(text)
		if err != nil || got != v {
			t.Fatalf("%d is written %q and read as %d, %v", v, text, got, err)
		}
		// Package time reads the same form, as long as its nanoseconds suffice.
		if d, err := time.ParseDuration(string(text)); err == nil && d.Microseconds() != v {
			t.Fatalf("%d is written %q, which package time reads as %v", v, text, d)
		}
	})
}

func TestParseDurationAgainstBig(t *testing.T) {
	units := []struct {
		name   string
		micros int64
	}{{"d", 86400e6}, {"h", 3600e6}, {"m", 60e6}, {"s", 1e6}, {"ms", 1e3}, {"us", 1}}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		total := new(big.Rat)
		any := false
		neg := rapid.Bool().Draw(t, "neg")
		if neg {
			text.WriteByte('-')
		}
		for _, u := range units {
			if !rapid.Bool().Draw(t, u.name) {
				continue
			}
			any = true
			number := rapid.StringMatching(`[0-9]{1,5}(\.[0-9]{1,15})?|[0-9]{10,22}`).Draw(t, "number")
			text.WriteString(number + u.name)
			r, _ := new(big.Rat).SetString(number)
			total.Add(total, r.Mul(r, new(big.Rat).SetInt64(u.micros)))
		}
		if neg {
			total.Neg(total)
		}
		got, err := ParseDuration([]byte(text.String()))
		if !any {
			if err != ErrDuration {
				t.Fatalf("ParseDuration(%q): %v", &text, err)
			}
			return
		}
		if err == nil && total.Cmp(new(big.Rat).SetInt64(got)) != 0 {
			t.Fatalf("ParseDuration(%q) = %d, want %v", &text, got, total)
		}
		if total.IsInt() && !total.Num().IsInt64() && err == nil {
			t.Fatalf("ParseDuration(%q) = %d, should be out of range", &text, got)
		}
	})
}

func TestDurationForms(t *testing.T) {
	for text, want := range map[string]string{"0s": "0s", "0d": "0s", "250ms": "0.25s", "10s": "10s", "5m": "5m", "1h": "1h", "2d": "48h",
		"1h2m3.5s": "1h2m3.5s", "-90s": "-1m30s", "1us": "0.000001s", "1.5h": "1h30m", "0.5ms": "0.0005s", "1d1us": "24h0.000001s",
		"90m": "1h30m"} {
		v, err := ParseDuration([]byte(text))
		if got := string(AppendDuration(nil, v)); err != nil || got != want {
			t.Errorf("%q is read and written as %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]error{"": ErrDuration, "-": ErrDuration, "5": ErrDuration, "s": ErrDuration, "5x": ErrDuration,
		"5 s": ErrDuration, "1s1s": ErrDuration, "1s1h": ErrDuration, "1.2.3s": ErrDuration, "1.s": ErrDuration, ".5s": ErrDuration,
		"+5s": ErrDuration, "1ns": ErrDuration, "1e3s": ErrDuration, "1s ": ErrDuration,
		"0.5us": ErrDurationFine, "1.0000001s": ErrDurationFine, "1.00000000000000000000001d": ErrDurationFine,
		"106751992d": ErrDurationRange, "9223372036854775808us": ErrDurationRange, "99999999999999999999999us": ErrDurationRange} {
		if _, err := ParseDuration([]byte(text)); err != want {
			t.Errorf("ParseDuration(%q): %v, want %v", text, err, want)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	buf := make([]byte, 0, 256)
	bytes := make([]byte, 0, 256)
	format, err := CompileTimestampFormat("%a %d %b %Y %I:%M:%S.%f %p %z")
	if err != nil {
		t.Fatal(err)
	}
	texts := [][]byte{[]byte("123456789012"), []byte("1.25"), []byte("1.2345678901234567890"), []byte("2001-01-01 06:55:00.25+01:00"),
		[]byte("1h2m3.5s"), []byte("aGVsbG8="), []byte("Mon 01 Jan 2001 06:55:00.25 AM +0100")}
	n := testing.AllocsPerRun(100, func() {
		i, e1 := ParseInt(texts[0])
		f, e2 := ParseFloat(texts[1])
		g, e3 := ParseFloat(texts[2])
		ts, e4 := ParseTimestamp(texts[3])
		d, e5 := ParseDuration(texts[4])
		b, e6 := AppendParsedBytes(bytes[:0], texts[5])
		ft, e7 := format.Parse(texts[6])
		if err := errors.Join(e1, e2, e3, e4, e5, e6, e7); err != nil {
			t.Fatal(err)
		}
		buf = AppendInt(buf[:0], i)
		buf = AppendFloat(buf, f)
		buf = AppendFloat(buf, g)
		buf = AppendTimestamp(buf, ts)
		buf = AppendDuration(buf, d)
		buf = AppendBytes(buf, b)
		buf = format.Append(buf, ft)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"true", "-12", "1.5e3", "2001-01-01T06:55:00Z", "2001-02-28 23:59:59.999999+14:00", "1h2m3.5s", "aGVsbG8="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := ParseInt(text); err == nil {
			if got, err := ParseInt(AppendInt(nil, v)); err != nil || got != v {
				t.Fatalf("int %d reads back as %d, %v", v, got, err)
			}
		}
		if v, err := ParseFloat(text); err == nil {
			if got, err := ParseFloat(AppendFloat(nil, v)); err != nil || got != v {
				t.Fatalf("float %v reads back as %v, %v", v, got, err)
			}
		}
		if v, err := ParseTimestamp(text); err == nil {
			if got, err := ParseTimestamp(AppendTimestamp(nil, v)); err != nil || got != v {
				t.Fatalf("timestamp %d reads back as %d, %v", v, got, err)
			}
		}
		if v, err := ParseDuration(text); err == nil {
			if got, err := ParseDuration(AppendDuration(nil, v)); err != nil || got != v {
				t.Fatalf("duration %d reads back as %d, %v", v, got, err)
			}
		}
		if v, err := ParseBytes(text); err == nil && string(AppendBytes(nil, v)) != string(text) {
			t.Fatalf("bytes %q read back otherwise", text)
		}
		ParseBool(text)
	})
}
