package decimal

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var limit = new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil)

func bigOf(n Num) *big.Int {
	v := new(big.Int).Lsh(big.NewInt(n.Hi), 64)
	return v.Add(v, new(big.Int).SetUint64(n.Lo))
}

func numOf(t interface{ Fatalf(string, ...any) }, v *big.Int) Num {
	lo := new(big.Int).And(v, new(big.Int).SetUint64(math.MaxUint64))
	hi := new(big.Int).Rsh(v, 64)
	if !hi.IsInt64() {
		t.Fatalf("%v has more than 128 bits", v)
	}
	return Num{Lo: lo.Uint64(), Hi: hi.Int64()}
}

// nums draws numbers of at most 38 digits, of all magnitudes, many of them near powers of 2 and 10.
var nums = rapid.Custom(func(t *rapid.T) *big.Int {
	v := new(big.Int)
	switch rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		v.Exp(big.NewInt(10), big.NewInt(rapid.Int64Range(0, 38).Draw(t, "exp10")), nil)
		v.Add(v, big.NewInt(rapid.Int64Range(-3, 3).Draw(t, "near")))
	case 1:
		v.Lsh(big.NewInt(1), rapid.UintRange(0, 126).Draw(t, "exp2"))
		v.Add(v, big.NewInt(rapid.Int64Range(-3, 3).Draw(t, "near")))
	default:
		digits := rapid.StringMatching(`[1-9][0-9]{0,37}`).Draw(t, "digits")
		v.SetString(digits, 10)
	}
	if v.CmpAbs(limit) >= 0 {
		v.Sub(limit, big.NewInt(1))
	}
	if rapid.Bool().Draw(t, "neg") {
		v.Neg(v)
	}
	return v
})

var scales = rapid.Uint8Range(0, 38)

func tenTo(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// quoRound is a/b rounded half away from zero.
func quoRound(a, b *big.Int) *big.Int {
	twice := new(big.Int).Lsh(new(big.Int).Abs(a), 1)
	q := twice.Add(twice, new(big.Int).Abs(b))
	q.Quo(q, new(big.Int).Lsh(new(big.Int).Abs(b), 1))
	if a.Sign()*b.Sign() < 0 {
		q.Neg(q)
	}
	return q
}

func check(t *rapid.T, op string, got Num, ok bool, want *big.Int) {
	t.Helper()
	fits := want.CmpAbs(limit) < 0
	if ok != fits {
		t.Fatalf("%s: ok = %v, want the %v of %v", op, ok, fits, want)
	}
	if ok && bigOf(got).Cmp(want) != 0 {
		t.Fatalf("%s = %v, want %v", op, bigOf(got), want)
	}
}

func TestArithmeticAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ba, bb := nums.Draw(t, "a"), nums.Draw(t, "b")
		a, b := numOf(t, ba), numOf(t, bb)
		got, ok := Add(a, b)
		check(t, "a+b", got, ok, new(big.Int).Add(ba, bb))
		got, ok = Sub(a, b)
		check(t, "a-b", got, ok, new(big.Int).Sub(ba, bb))
		got, ok = Mul(a, b)
		check(t, "a*b", got, ok, new(big.Int).Mul(ba, bb))
		check(t, "-a", Neg(a), true, new(big.Int).Neg(ba))
		if got, want := Cmp(a, b), ba.Cmp(bb); got != want {
			t.Fatalf("Cmp = %d, want %d", got, want)
		}
		if got, want := Sign(a), ba.Sign(); got != want || IsZero(a) != (want == 0) {
			t.Fatalf("Sign = %d, IsZero = %v, want sign %d", got, IsZero(a), want)
		}
		if v, ok := Int64(a); ok != ba.IsInt64() || ok && v != ba.Int64() {
			t.Fatalf("Int64 = %d, %v", v, ok)
		}
		p := rapid.Uint8Range(1, 38).Draw(t, "precision")
		if got, want := Fits(a, p), ba.CmpAbs(tenTo(int(p))) < 0; got != want {
			t.Fatalf("Fits(%d) = %v, want %v", p, got, want)
		}
		from, to := scales.Draw(t, "from"), scales.Draw(t, "to")
		got, ok = Rescale(a, from, to)
		want := new(big.Int).Mul(ba, tenTo(int(to)))
		check(t, "Rescale", got, ok, quoRound(want, tenTo(int(from))))
	})
}

func TestDivisionAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ba, bb := nums.Draw(t, "a"), nums.Draw(t, "b")
		if bb.Sign() == 0 {
			bb.SetInt64(7)
		}
		a, b := numOf(t, ba), numOf(t, bb)
		got, ok := Rem(a, b)
		check(t, "a%b", got, ok, new(big.Int).Rem(ba, bb))
		sa, sb, sr := scales.Draw(t, "sa"), scales.Draw(t, "sb"), scales.Draw(t, "sr")
		up := new(big.Int).Mul(ba, tenTo(int(sr)+int(sb)))
		down := new(big.Int).Mul(bb, tenTo(int(sa)))
		got, ok = Div(a, b, sa, sb, sr)
		check(t, "a/b", got, ok, quoRound(up, down))
	})
}

func TestWideDivisionAgainstBig(t *testing.T) {
	wide := func(u uint128) *big.Int {
		v := new(big.Int).Lsh(new(big.Int).SetUint64(u.hi), 64)
		return v.Add(v, new(big.Int).SetUint64(u.lo))
	}
	word := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 1 << 63, math.MaxUint64, math.MaxUint64 - 1, 1<<63 - 1}))
	draw := rapid.Custom(func(t *rapid.T) uint128 { return uint128{word.Draw(t, "hi"), word.Draw(t, "lo")} })
	rapid.Check(t, func(t *rapid.T) {
		d, lo := draw.Draw(t, "d"), draw.Draw(t, "lo")
		if d == (uint128{}) {
			d.lo = 1
		}
		_, hi := div(uint128{}, draw.Draw(t, "hi"), d)
		q, r := div(hi, lo, d)
		u := new(big.Int).Lsh(wide(hi), 128)
		wantQ, wantR := u.Add(u, wide(lo)).QuoRem(u, wide(d), new(big.Int))
		if wide(q).Cmp(wantQ) != 0 || wide(r).Cmp(wantR) != 0 {
			t.Fatalf("div(%v, %v, %v) = %v, %v, want %v, %v", hi, lo, d, wide(q), wide(r), wantQ, wantR)
		}
	})
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, scale := nums.Draw(t, "n"), scales.Draw(t, "scale")
		n := numOf(t, v)
		text := string(Append(nil, n, scale))
		want := new(big.Rat).SetFrac(v, tenTo(int(scale)))
		if got, ok := new(big.Rat).SetString(text); !ok || got.Cmp(want) != 0 {
			t.Fatalf("Append gives %q for %v", text, want)
		}
		if strings.Contains(text, ".") && (strings.HasSuffix(text, "0") || strings.HasSuffix(text, ".")) {
			t.Fatalf("Append gives %q, which ends in zeros", text)
		}
		got, err := Parse([]byte(text), 38, scale)
		if err != nil || got != n {
			t.Fatalf("Parse(%q) = %v, %v, want %v", text, got, err, n)
		}
		wantFloat, _ := want.Float64()
		if got := Float64(n, scale); got != wantFloat {
			t.Fatalf("Float64 = %v, want %v", got, wantFloat)
		}
	})
}

func TestParseAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+]?([0-9]{1,45}\.?[0-9]{0,45}|\.[0-9]{1,4}|0\.0{0,30}[1-9]0{0,50})([eE][-+]?[0-9]{1,2})?`).Draw(t, "text")
		precision := rapid.Uint8Range(1, 38).Draw(t, "precision")
		scale := rapid.Uint8Range(0, precision).Draw(t, "scale")
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%q is not in the reference's language", text)
		}
		exact.Mul(exact, new(big.Rat).SetInt(tenTo(int(scale))))
		fits := exact.IsInt() && exact.Num().CmpAbs(tenTo(int(precision))) < 0
		got, err := Parse([]byte(text), precision, scale)
		if (err == nil) != fits {
			t.Fatalf("Parse(%q, %d, %d): error %v, want none: %v", text, precision, scale, err, fits)
		}
		if fits && bigOf(got).Cmp(exact.Num()) != 0 {
			t.Fatalf("Parse(%q, %d, %d) = %v, want %v", text, precision, scale, bigOf(got), exact.Num())
		}
	})
}

func TestParseErrors(t *testing.T) {
	long := strings.Repeat("9", 39)
	for _, c := range []struct{ text, want string }{
		{"", "is not a decimal"}, {"-", "is not a decimal"}, {".", "is not a decimal"}, {"+.", "is not a decimal"},
		{"1.2.3", "is not a decimal"}, {"1e", "is not a decimal"}, {"1e+", "is not a decimal"}, {"e5", "is not a decimal"},
		{" 1", "is not a decimal"}, {"1 ", "is not a decimal"}, {"1,5", "is not a decimal"}, {"abc", "is not a decimal"},
		{"NaN", "is not a decimal"}, {"--1", "is not a decimal"}, {"1e5x", "is not a decimal"}, {long + "x", "is not a decimal"},
		{long + ".1.", "is not a decimal"},
		{"1.234", "has more than 2 digits after the point"}, {"1e-3", "has more than 2 digits after the point"},
		{"1." + long, "has more than 2 digits after the point"},
		{"100000000", "is out of range for decimal(10,2)"}, {"1e99999999999", "is out of range for decimal(10,2)"},
		{long, "is out of range for decimal(10,2)"}, {long + ".5", "is out of range for decimal(10,2)"},
	} {
		_, err := Parse([]byte(c.text), 10, 2)
		if err == nil || err.Error() != c.want {
			t.Errorf("Parse(%q): %v, want %q", c.text, err, c.want)
		}
	}
}

func TestFromFloat64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1e6, 1e6), rapid.Custom(func(t *rapid.T) float64 {
			return float64(rapid.IntRange(-1e6, 1e6).Draw(t, "m")) / 1000
		})).Draw(t, "f")
		scale := scales.Draw(t, "scale")
		shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
		shortest.Mul(shortest, new(big.Rat).SetInt(tenTo(int(scale))))
		got, ok := FromFloat64(f, scale)
		check(t, "FromFloat64", got, ok, quoRound(shortest.Num(), shortest.Denom()))
	})
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, ok := FromFloat64(f, 2); ok {
			t.Errorf("FromFloat64(%v) is ok", f)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	text := []byte("-12345678901234567890.1234500")
	buf := make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		v, err := Parse(text, 38, 9)
		if err != nil {
			t.Fatal(err)
		}
		buf = Append(buf[:0], v, 9)
		f := Float64(v, 9)
		if _, ok := FromFloat64(f+0.1, 5); !ok {
			t.Fatal("FromFloat64 overflows")
		}
		if _, ok := Div(v, v, 9, 9, 20); !ok {
			t.Fatal("Div overflows")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1.5", "-0.001e3", "99999999999999999999999999999999999999", "1e-400", "+.5"} {
		f.Add([]byte(s), uint8(38), uint8(9))
	}
	f.Fuzz(func(t *testing.T, text []byte, precision, scale uint8) {
		precision = 1 + precision%38
		scale %= precision + 1
		n, err := Parse(text, precision, scale)
		if err != nil {
			return
		}
		if !Fits(n, precision) {
			t.Fatalf("%v does not fit %d digits", n, precision)
		}
		again, err := Parse(Append(nil, n, scale), precision, scale)
		if err != nil || again != n {
			t.Fatalf("%v reads back as %v, %v", n, again, err)
		}
	})
}
