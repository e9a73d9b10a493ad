package expr

import (
	"testing"
)

// FuzzParse holds the parser to this: it does not panic, and the canonical text of what it accepts parses
// to the same canonical text.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"a + b * -c", "NOT (a AND b) OR c IS NOT NULL", "x BETWEEN 1 AND 2 AND y NOT IN (1, 'b', NULL)",
		"s LIKE 'a!%%' ESCAPE '!'", "CASE a WHEN 1 THEN 'x' ELSE \"q\"\"r\" END", "CAST(a AS decimal(10,2))",
		"EXTRACT(year FROM t)", "trim(LEADING 'x' FROM s)", "position('a' IN s)", "substring(s FROM 1 FOR 2)",
		"TIMESTAMP '2001-01-01 06:55:00' + INTERVAL '-1.5' HOUR - 5m", "1.5e-7 + 0.50 + 9223372036854775808",
		"count(DISTINCT x) FILTER (WHERE x > 1)", "-(9223372036854775808)", "a.b || 'ß'", "a IS DISTINCT FROM b = c",
		"trim(leading)", "position(('a' IN ('b')), c)", "not not a is true", "1h2m3.5s", "((((((((", "\"", "'",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, errs := parseExpression(text)
		if n == nil || len(errs) > 0 {
			if len(errs) == 0 {
				t.Fatal("refused without a fault")
			}
			for _, e := range errs {
				if e.Offset < 0 || e.Offset > len(text) {
					t.Fatalf("offset %d of %d", e.Offset, len(text))
				}
			}
			return
		}
		canonical := format(n)
		again, errs := parseExpression(canonical)
		if len(canonical) > maxText {
			return
		}
		if len(errs) > 0 {
			t.Fatalf("%q becomes %q, which is refused: %v", text, canonical, errs)
		}
		if got := format(again); got != canonical {
			t.Fatalf("%q becomes %q, then %q", text, canonical, got)
		}
	})
}

// FuzzCompile holds the checker and the folding of constants to not panicking, for texts with and
// without columns, and what compiles to being evaluated without a panic.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{"i / j + d * f", "concat(s, i, ts, b)", "CASE WHEN b THEN s ELSE substring(s, i, j) END",
		"date_trunc('month', ts) - ts + u", "round(d, -2) = round(f, i)", "CAST(s AS timestamp) IN (ts, NULL)",
		"greatest(i, d, f) IS DISTINCT FROM nullif(i, j)", "split_part(s, s, i) LIKE s || '%'", "hash(s, NULL, raw)"} {
		f.Add(text)
	}
	tab := sampleBatch(70)
	scope := NewScope("t", tab.Schema)
	f.Fuzz(func(t *testing.T, text string) {
		p, errs := Compile(text, scope)
		if len(errs) > 0 {
			return
		}
		var ctx Context
		p.Eval(&ctx, tab, nil)
		p.Eval(&ctx, tab, []int32{0, 3, 69})
	})
}
