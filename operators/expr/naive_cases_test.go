package expr_test

import (
	"math"
	"slices"
	"testing"

	"sluice/dataflow"
	"sluice/internal/naive"
	"sluice/operators/expr"
)

// fact is one sentence about the language: what an expression gives, by hand. want is the value in its
// text form (text and bytes quoted as in Go), NULL or error.
type fact struct{ sql, typ, want string }

var caseTypes = []naive.Type{naive.IntType, naive.IntType, naive.StringType, naive.BoolType, naive.TimestampType, naive.DecimalType(38, 0), naive.FloatType}

// caseSchema has one row: n 7, zero 0, s 'Ünï 😀', null_flag NULL, ts 2001-01-01T06:55:00.25Z, big
// 99999999999999999999999999999999999999, f 0.5.
var caseSchema = &dataflow.Schema{Columns: []dataflow.Column{
	{Name: "n", Type: dataflow.IntType}, {Name: "zero", Type: dataflow.IntType}, {Name: "s", Type: dataflow.StringType},
	{Name: "null_flag", Type: dataflow.BoolType, Nullable: true}, {Name: "ts", Type: dataflow.TimestampType, Nullable: true},
	{Name: "big", Type: dataflow.DecimalType(38, 0)}, {Name: "f", Type: dataflow.FloatType},
}}

func caseTable() *table {
	nines, _ := naive.Cast(naive.Literal(naive.StringType, naive.Value{Text: "99999999999999999999999999999999999999"}), naive.DecimalType(38, 0)).Eval(nil)
	tab := &table{types: caseTypes, schema: caseSchema}
	tab.rows = [][]naive.Value{{{Int: 7}, {}, {Text: "Ünï 😀"}, {Null: true}, {Int: 978332100250000}, nines, {Float: 0.5}}}
	tab.hidden = [][]naive.Value{tab.rows[0]}
	tab.batch = tab.slice(0, 1)
	return tab
}

func checkFacts(t *testing.T, facts []fact) {
	t.Helper()
	tab := caseTable()
	for _, f := range facts {
		p, errs := expr.Compile(f.sql, expr.NewScope("flow", caseSchema))
		if len(errs) > 0 {
			t.Errorf("%s is refused: %v", f.sql, errs)
			continue
		}
		if got := p.Type().String(); got != f.typ {
			t.Errorf("%s is %s, not %s", f.sql, got, f.typ)
			continue
		}
		ctx := &expr.Context{}
		v := p.Eval(ctx, tab.batch, nil)
		got := "error"
		if len(ctx.Errors()) == 0 {
			got = valueAt(v, 0).Show(naiveType(p.Type()))
		}
		if got != f.want {
			t.Errorf("%s is %s, not %s (%v)", f.sql, got, f.want, ctx.Errors())
		}
	}
}

func naiveType(t dataflow.Type) naive.Type {
	for k, e := range engineKinds {
		if e == t.Kind {
			return naive.Type{Kind: naive.Kind(k), Precision: int(t.Precision), Scale: int(t.Scale)}
		}
	}
	return naive.NullType
}

func TestIntegersByHand(t *testing.T) {
	checkFacts(t, []fact{
		{"7 / 2", "int", "3"},
		{"-7 / 2", "int", "-3"},
		{"7 / -2", "int", "-3"},
		{"n / 2", "int", "3"},
		{"-n / 2", "int", "-3"},
		{"7 % 3", "int", "1"},
		{"-7 % 3", "int", "-1"},
		{"7 % -3", "int", "1"},
		{"-n % 3", "int", "-1"},
		{"n / zero", "int", "error"},
		{"n % zero", "int", "error"},
		{"1 / 0", "int", "error"},
		{"9223372036854775807 + 1", "int", "error"},
		{"9223372036854775807 + zero", "int", "9223372036854775807"},
		{"9223372036854775800 + n", "int", "9223372036854775807"},
		{"9223372036854775801 + n", "int", "error"},
		{"-9223372036854775808 - zero", "int", "-9223372036854775808"},
		{"-9223372036854775801 - n", "int", "-9223372036854775808"},
		{"-9223372036854775802 - n", "int", "error"},
		{"-9223372036854775808 / (zero - 1)", "int", "error"},
		{"-9223372036854775808 % (zero - 1)", "int", "0"},
		{"-(-9223372036854775808)", "int", "error"},
		{"abs(zero - 9223372036854775807 - 1)", "int", "error"},
		{"3037000500 * 3037000500", "int", "error"},
		{"3037000499 * 3037000499", "int", "9223372030926249001"},
		{"-9223372036854775808 * (zero - 1)", "int", "error"},
		{"2 + 3 * 4 - 10 / 3 % 2", "int", "13"},
		{"(2 + 3) * 4", "int", "20"},
		{"10 - 4 - 3", "int", "3"},
		{"- 2 - -2", "int", "0"},
	})
}

func TestNumbersByHand(t *testing.T) {
	checkFacts(t, []fact{
		{"1.5", "decimal(2,1)", "1.5"},
		{"1e3", "float", "1000"},
		{".5", "decimal(1,1)", "0.5"},
		{"00.50", "decimal(2,2)", "0.5"},
		{"9223372036854775808", "decimal(19,0)", "9223372036854775808"},
		{"-9223372036854775808", "int", "-9223372036854775808"},
		{"1.5 + 1e0", "float", "2.5"},
		{"n + 0.5e0", "float", "7.5"},
		{"0.1 + 0.2", "decimal(2,1)", "0.3"},
		{"1.10 * 2.5", "decimal(5,3)", "2.75"},
		{"1.0 / 3", "decimal(7,6)", "0.333333"},
		{"2.0 / 3", "decimal(7,6)", "0.666667"},
		{"-2.0 / 3", "decimal(7,6)", "-0.666667"},
		{"0.0000001 / 2", "decimal(7,7)", "0.0000001"},
		{"-0.0000001 / 2", "decimal(7,7)", "-0.0000001"},
		{"1.00000 / 64", "decimal(7,6)", "0.015625"},
		{"5.5 % 2", "decimal(20,1)", "1.5"},
		{"-5.5 % 2.0", "decimal(2,1)", "-1.5"},
		{"5.5e0 % 2", "float", "1.5"},
		{"1.5 / 0", "decimal(7,6)", "error"},
		{"1.5 / 0.0", "decimal(8,6)", "error"},
		{"1e0 / zero", "float", "error"},
		{"f % 0", "float", "error"},
		{"1e308 * 10", "float", "error"},
		{"big + 1", "decimal(38,0)", "error"},
		{"big - 1", "decimal(38,0)", "99999999999999999999999999999999999998"},
		{"big * 1", "decimal(38,0)", "99999999999999999999999999999999999999"},
		{"big * 2", "decimal(38,0)", "error"},
		{"big / 0.1", "decimal(38,6)", "error"},
		{"n = 7.0", "bool", "true"},
		{"n IN (CAST(0.5 AS decimal(38,38)), 7.00)", "bool", "true"},
		{"n NOT IN (CAST(0.5 AS decimal(38,38)), zero)", "bool", "true"},
		{"n + zero IN (big, big - 1)", "bool", "false"},
		{"big % 0.5", "decimal(38,1)", "0"},
		{"0.000001 % big", "decimal(38,6)", "0.000001"},
		{"1.0 - CAST(0.2 AS decimal(38,38))", "decimal(38,38)", "0.8"},
		{"n < 7.5", "bool", "true"},
		{"n > 6.999999", "bool", "true"},
		{"f = 0.5", "bool", "true"},
		{"1.50 = 1.5", "bool", "true"},
		{"abs(-1.5)", "decimal(2,1)", "1.5"},
		{"abs(-7)", "int", "7"},
		{"sign(-1.5)", "int", "-1"},
		{"sign(zero)", "int", "0"},
		{"sign(f)", "int", "1"},
		{"sqrt(16)", "float", "4"},
		{"sqrt(-1)", "float", "error"},
		{"ln(0)", "float", "error"},
		{"ln(1)", "float", "0"},
		{"log10(1000)", "float", "3"},
		{"exp(0)", "float", "1"},
		{"exp(1000)", "float", "error"},
		{"power(2, 10)", "float", "1024"},
		{"power(0, -1)", "float", "error"},
		{"power(-8, 0.5)", "float", "error"},
	})
}

func TestRoundingByHand(t *testing.T) {
	checkFacts(t, []fact{
		{"CAST(2.5 AS int)", "int", "3"},
		{"CAST(-2.5 AS int)", "int", "-3"},
		{"CAST(2.49 AS int)", "int", "2"},
		{"CAST(2.5e0 AS int)", "int", "3"},
		{"CAST(-2.5e0 AS int)", "int", "-3"},
		{"CAST(9.3e18 AS int)", "int", "error"},
		{"CAST(9223372036854775807.5 AS int)", "int", "error"},
		{"CAST(9223372036854775807.4 AS int)", "int", "9223372036854775807"},
		{"CAST(-9223372036854775808.4 AS int)", "int", "-9223372036854775808"},
		{"CAST(1.255 AS decimal(3,2))", "decimal(3,2)", "1.26"},
		{"CAST(-1.255 AS decimal(3,2))", "decimal(3,2)", "-1.26"},
		{"CAST(0.15e0 AS decimal(2,1))", "decimal(2,1)", "0.2"},
		{"CAST(99.95 AS decimal(3,1))", "decimal(3,1)", "error"},
		{"CAST(n AS decimal(3,2))", "decimal(3,2)", "7"},
		{"CAST(10 AS decimal(3,2))", "decimal(3,2)", "error"},
		{"round(2.5)", "decimal(2,0)", "3"},
		{"round(-2.5)", "decimal(2,0)", "-3"},
		{"round(1.255, 2)", "decimal(4,2)", "1.26"},
		{"round(1.5, 3)", "decimal(2,1)", "1.5"},
		{"round(1255.5, -1)", "decimal(5,0)", "1260"},
		{"round(-1255, -1)", "int", "-1260"},
		{"round(n, 2)", "int", "7"},
		{"round(9223372036854775807, -1)", "int", "error"},
		{"floor(-1.5)", "decimal(2,0)", "-2"},
		{"ceil(-1.5)", "decimal(2,0)", "-1"},
		{"ceil(9.5)", "decimal(2,0)", "10"},
		{"floor(n)", "int", "7"},
		{"round(2.5e0)", "float", "3"},
		{"round(-2.5e0)", "float", "-3"},
		{"round(2.4e0)", "float", "2"},
		{"floor(-1.5e0)", "float", "-2"},
		{"ceil(-1.5e0)", "float", "-1"},
		{"round(1.26e0, 1)", "float", "1.3"},
		{"round(-1.25e0, 1)", "float", "-1.3"},
		{"round(0.15e0, 1)", "float", "0.2"},
	})
}

func TestNullsByHand(t *testing.T) {
	facts := []fact{
		{"NULL IS NULL", "bool", "true"},
		{"null_flag IS NULL", "bool", "true"},
		{"null_flag IS NOT NULL", "bool", "false"},
		{"null_flag IS DISTINCT FROM NULL", "bool", "false"},
		{"null_flag IS DISTINCT FROM TRUE", "bool", "true"},
		{"null_flag IS NOT DISTINCT FROM FALSE", "bool", "false"},
		{"n IS DISTINCT FROM 7", "bool", "false"},
		{"null_flag IS TRUE", "bool", "false"},
		{"null_flag IS NOT TRUE", "bool", "true"},
		{"null_flag IS FALSE", "bool", "false"},
		{"NOT null_flag IS NULL", "bool", "false"},
		{"n = 7 IS TRUE", "bool", "true"},
		{"n = NULL", "bool", "NULL"},
		{"n + NULL", "int", "NULL"},
		{"NULL || s", "string", "NULL"},
		{"n IN (1, NULL)", "bool", "NULL"},
		{"n IN (7, NULL)", "bool", "true"},
		{"n NOT IN (1, NULL)", "bool", "NULL"},
		{"n NOT IN (7, NULL)", "bool", "false"},
		{"n NOT IN (1, 2)", "bool", "true"},
		{"NULL IN (1, 2)", "bool", "NULL"},
		{"n BETWEEN NULL AND 5", "bool", "false"},
		{"n BETWEEN NULL AND 8", "bool", "NULL"},
		{"n BETWEEN 7 AND 7", "bool", "true"},
		{"n NOT BETWEEN NULL AND 5", "bool", "true"},
		{"CASE WHEN NULL THEN 1 ELSE 2 END", "int", "2"},
		{"CASE WHEN FALSE THEN 1 END", "int", "NULL"},
		{"CASE null_flag WHEN NULL THEN 1 ELSE 2 END", "int", "2"},
		{"CASE n WHEN 1 THEN 'a' WHEN 7 THEN 'b' END", "string", `"b"`},
		{"coalesce(NULL, n, 1 / zero)", "int", "7"},
		{"coalesce(null_flag, TRUE)", "bool", "true"},
		{"nullif(n, 7)", "int", "NULL"},
		{"nullif(n, 8)", "int", "7"},
		{"nullif(n, NULL)", "int", "7"},
		{"CAST(NULL AS int)", "int", "NULL"},
		{"length(NULL)", "int", "NULL"},
	}
	truth := map[string]string{"TRUE": "true", "FALSE": "false", "null_flag": "NULL"}
	for a := range truth {
		for b := range truth {
			and, or := "true", "false"
			switch {
			case a == "FALSE" || b == "FALSE":
				and = "false"
			case a == "null_flag" || b == "null_flag":
				and = "NULL"
			}
			switch {
			case a == "TRUE" || b == "TRUE":
				or = "true"
			case a == "null_flag" || b == "null_flag":
				or = "NULL"
			}
			facts = append(facts, fact{a + " AND " + b, "bool", and}, fact{a + " OR " + b, "bool", or})
		}
	}
	facts = append(facts, fact{"NOT TRUE", "bool", "false"}, fact{"NOT FALSE", "bool", "true"}, fact{"NOT null_flag", "bool", "NULL"})
	checkFacts(t, facts)
}

func TestLazinessByHand(t *testing.T) {
	checkFacts(t, []fact{
		{"zero <> 0 AND n / zero > 2", "bool", "false"},
		{"zero = 0 OR n / zero > 2", "bool", "true"},
		{"NOT (zero = 0 OR n / zero > 2)", "bool", "false"},
		{"zero = 0 AND n / zero > 2", "bool", "error"},
		{"n / zero > 2 AND FALSE", "bool", "error"},
		{"null_flag AND n / zero > 2", "bool", "error"},
		{"CASE WHEN zero = 0 THEN 0 ELSE n / zero END", "int", "0"},
		{"CASE zero WHEN 0 THEN 1 WHEN n / zero THEN 2 END", "int", "1"},
		{"CASE WHEN FALSE THEN 1 / 0 ELSE 2 END", "int", "2"},
		{"coalesce(n, n / zero)", "int", "7"},
		{"n / zero IS NULL", "bool", "error"},
		{"FALSE AND CAST('x' AS bool)", "bool", "false"},
		{"n IN (7, n / zero)", "bool", "true"},
		{"nullif(n, n / zero)", "int", "error"},
	})
}

func TestTextByHand(t *testing.T) {
	checkFacts(t, []fact{
		{"'it''s'", "string", `"it's"`},
		{"'a' || 'b' || s", "string", `"abÜnï 😀"`},
		{"'a' || n || 1.50", "string", `"a71.5"`},
		{"TRUE || 'x' || 5m", "string", `"truex5m"`},
		{"'a' || 1 + 2", "string", `"a3"`},
		{"length(s)", "int", "5"},
		{"length('')", "int", "0"},
		{"length(CAST('aGk=' AS bytes))", "int", "2"},
		{"lower(s)", "string", `"ünï 😀"`},
		{"upper('straße é')", "string", `"STRAßE É"`},
		{"substring(s, 2, 3)", "string", `"nï "`},
		{"substring(s FROM 2 FOR 3)", "string", `"nï "`},
		{"substring(s, 5)", "string", `"😀"`},
		{"substring(s, 6)", "string", `""`},
		{"substring('alphabet', 3)", "string", `"phabet"`},
		{"substring('alphabet', 0, 3)", "string", `"al"`},
		{"substring('alphabet', -1, 3)", "string", `"a"`},
		{"substring('alphabet', 3, 0)", "string", `""`},
		{"substring('alphabet', 3, -1)", "string", "error"},
		{"substring('alphabet', -9223372036854775808, 175)", "string", `""`},
		{"substring('alphabet', -9223372036854775808, 9223372036854775807)", "string", `""`},
		{"substring('alphabet', 2, 9223372036854775807)", "string", `"lphabet"`},
		{"position('ï' IN s)", "int", "3"},
		{"position('😀' IN s)", "int", "5"},
		{"position('x' IN s)", "int", "0"},
		{"position('' IN s)", "int", "1"},
		{"trim('  a b  ')", "string", `"a b"`},
		{"trim('xxaxx', 'x')", "string", `"a"`},
		{"trim(BOTH 'x' FROM 'xxaxx')", "string", `"a"`},
		{"trim(LEADING 'x' FROM 'xxaxx')", "string", `"axx"`},
		{"trim(TRAILING FROM ' a ')", "string", `" a"`},
		{"ltrim('  a ')", "string", `"a "`},
		{"rtrim('aéé', 'é')", "string", `"a"`},
		{"replace('banana', 'an', 'o')", "string", `"booa"`},
		{"replace('banana', '', 'o')", "string", `"banana"`},
		{"starts_with(s, 'Ün')", "bool", "true"},
		{"starts_with(s, '')", "bool", "true"},
		{"ends_with(s, '😀')", "bool", "true"},
		{"ends_with(s, 'Ü')", "bool", "false"},
		{"regexp_like(s, '^Ü..\\s.$')", "bool", "true"},
		{"regexp_like('abc', 'b')", "bool", "true"},
		{"split_part('a,b,c', ',', 2)", "string", `"b"`},
		{"split_part('a,b,c', ',', 4)", "string", `""`},
		{"split_part('a,b,c', ',', -1)", "string", `"c"`},
		{"split_part('aaa', 'aa', -1)", "string", `"a"`},
		{"split_part('aaa', 'aa', 2)", "string", `"a"`},
		{"concat('a', NULL, 'b')", "string", `"ab"`},
		{"concat(n, '-', 1.50, TRUE)", "string", `"7-1.5true"`},
		{"concat(NULL)", "string", `""`},
		{"'a' < 'b'", "bool", "true"},
		{"'B' < 'a'", "bool", "true"},
		{"'a' < 'aa'", "bool", "true"},
		{"'é' > 'z'", "bool", "true"},
		{"greatest('a', 'b')", "string", `"b"`},
		{"least(3, n, 5)", "int", "3"},
	})
}

func TestLikeByHand(t *testing.T) {
	checkFacts(t, []fact{
		{"'abc' LIKE 'abc'", "bool", "true"},
		{"'abc' LIKE 'a%'", "bool", "true"},
		{"'abc' LIKE '%c'", "bool", "true"},
		{"'abc' LIKE '%b%'", "bool", "true"},
		{"'abc' LIKE 'a_c'", "bool", "true"},
		{"'abc' LIKE 'a_'", "bool", "false"},
		{"'abc' LIKE 'ABC'", "bool", "false"},
		{"'' LIKE '%'", "bool", "true"},
		{"'' LIKE '_'", "bool", "false"},
		{"'' LIKE ''", "bool", "true"},
		{"s LIKE '_n_ _'", "bool", "true"},
		{"s LIKE '%ï%_'", "bool", "true"},
		{"s NOT LIKE '%x%'", "bool", "true"},
		{"'a.c' LIKE 'a.c'", "bool", "true"},
		{"'axc' LIKE 'a.c'", "bool", "false"},
		{"'50%' LIKE '50!%' ESCAPE '!'", "bool", "true"},
		{"'50x' LIKE '50!%' ESCAPE '!'", "bool", "false"},
		{"'a_b' LIKE '%!_%' ESCAPE '!'", "bool", "true"},
		{"'a!b' LIKE 'a!!b' ESCAPE '!'", "bool", "true"},
		{"'ab' LIKE 'ab%%'", "bool", "true"},
		{"'aXbXc' LIKE 'a%b%c'", "bool", "true"},
		{"'aaab' LIKE '%aab'", "bool", "true"},
		{"'abab' LIKE '%ab_'", "bool", "false"},
		{"NULL LIKE 'a'", "bool", "NULL"},
		{"'line\nbreak' LIKE 'line%'", "bool", "true"},
		{"'a\nb' LIKE 'a_b'", "bool", "true"},
	})
}

func TestTimesByHand(t *testing.T) {
	checkFacts(t, []fact{
		{"TIMESTAMP '2001-01-01 06:55:00'", "timestamp", "2001-01-01T06:55:00Z"},
		{"TIMESTAMP '2001-01-01'", "timestamp", "2001-01-01T00:00:00Z"},
		{"TIMESTAMP '2001-01-01T06:55:00+02:00'", "timestamp", "2001-01-01T04:55:00Z"},
		{"INTERVAL '5' MINUTE", "duration", "5m"},
		{"5m + 30s", "duration", "5m30s"},
		{"1h30m", "duration", "1h30m"},
		{"1.5h", "duration", "1h30m"},
		{"INTERVAL '-1h30m'", "duration", "-1h30m"},
		{"INTERVAL '1.5' hours", "duration", "1h30m"},
		{"1d / 24", "duration", "1h"},
		{"-7s / 2", "duration", "-3.5s"},
		{"-3us / 2", "duration", "-0.000001s"},
		{"-7s % 2s", "duration", "-1s"},
		{"1h / (zero * 1s)", "float", "error"},
		{"1h / zero", "duration", "error"},
		{"ts - 9223372036854775807us - 9223372036854775807us", "timestamp", "error"},
		{"2d", "duration", "48h"},
		{"250ms * 2", "duration", "0.5s"},
		{"-(1h)", "duration", "-1h"},
		{"ts + 5m", "timestamp", "2001-01-01T07:00:00.25Z"},
		{"ts - INTERVAL '1' DAY", "timestamp", "2000-12-31T06:55:00.25Z"},
		{"ts - TIMESTAMP '2001-01-01 00:00:00'", "duration", "6h55m0.25s"},
		{"1h / 1m", "float", "60"},
		{"1h / 7", "duration", "8m34.285714s"},
		{"ts > '2001-01-01'", "bool", "true"},
		{"ts BETWEEN TIMESTAMP '2001-01-01' AND TIMESTAMP '2001-01-02'", "bool", "true"},
		{"1m = 60s", "bool", "true"},
		{"date_trunc('hour', ts)", "timestamp", "2001-01-01T06:00:00Z"},
		{"date_trunc('year', TIMESTAMP '1969-07-20 20:17:40')", "timestamp", "1969-01-01T00:00:00Z"},
		{"date_trunc('month', TIMESTAMP '2000-02-29 23:59:59.999999')", "timestamp", "2000-02-01T00:00:00Z"},
		{"date_trunc('day', TIMESTAMP '1969-12-31 23:59:59.5')", "timestamp", "1969-12-31T00:00:00Z"},
		{"date_trunc('minute', TIMESTAMP '1969-12-31 23:59:59.5')", "timestamp", "1969-12-31T23:59:00Z"},
		{"date_trunc('second', TIMESTAMP '1969-12-31 23:59:59.5')", "timestamp", "1969-12-31T23:59:59Z"},
		{"date_trunc('week', TIMESTAMP '2001-01-03')", "timestamp", "2001-01-01T00:00:00Z"},
		{"date_trunc('week', TIMESTAMP '1970-01-01')", "timestamp", "1969-12-29T00:00:00Z"},
		{"date_trunc('quarter', TIMESTAMP '2001-12-31')", "timestamp", "2001-10-01T00:00:00Z"},
		{"extract(year FROM ts)", "int", "2001"},
		{"EXTRACT(MONTH FROM TIMESTAMP '2000-02-29')", "int", "2"},
		{"extract(day FROM TIMESTAMP '2000-02-29')", "int", "29"},
		{"year(TIMESTAMP '1900-03-01')", "int", "1900"},
		{"month(ts)", "int", "1"},
		{"day(TIMESTAMP '1969-12-31 23:59:59.999999')", "int", "31"},
		{"hour(TIMESTAMP '1969-12-31 23:59:59.999999')", "int", "23"},
		{"minute(ts)", "int", "55"},
		{"second(ts)", "int", "0"},
		{"extract(millisecond FROM TIMESTAMP '2001-01-01 00:00:07.25')", "int", "7250"},
		{"extract(microsecond FROM TIMESTAMP '1969-12-31 23:59:59.5')", "int", "59500000"},
		{"extract(epoch FROM TIMESTAMP '1970-01-02 00:00:00.5')", "decimal(19,6)", "86400.5"},
		{"extract(epoch FROM 90s)", "decimal(19,6)", "90"},
		{"extract(dow FROM TIMESTAMP '2001-01-07')", "int", "0"},
		{"extract(dow FROM TIMESTAMP '1969-12-31')", "int", "3"},
		{"extract(doy FROM TIMESTAMP '2000-12-31')", "int", "366"},
		{"extract(week FROM TIMESTAMP '2010-01-03')", "int", "53"},
		{"extract(week FROM TIMESTAMP '2012-12-31')", "int", "1"},
		{"extract(quarter FROM ts)", "int", "1"},
		{"extract(day FROM 49h)", "int", "2"},
		{"hour(49h30m)", "int", "1"},
		{"minute(-(49h30m))", "int", "-30"},
	})
}

func TestCastsByHand(t *testing.T) {
	checkFacts(t, []fact{
		{"CAST('12' AS int)", "int", "12"},
		{"CAST('-12' AS int)", "int", "-12"},
		{"CAST('9223372036854775808' AS int)", "int", "error"},
		{"CAST('1.5' AS int)", "int", "error"},
		{"CAST('' AS int)", "int", "error"},
		{"CAST(s AS int)", "int", "error"},
		{"CAST('t' AS bool)", "bool", "true"},
		{"CAST('0' AS bool)", "bool", "false"},
		{"CAST('yes' AS bool)", "bool", "error"},
		{"CAST('1e3' AS float)", "float", "1000"},
		{"CAST('1e999' AS float)", "float", "error"},
		{"CAST('1.50' AS decimal(5,2))", "decimal(5,2)", "1.5"},
		{"CAST('1.505' AS decimal(5,2))", "decimal(5,2)", "error"},
		{"CAST('1234' AS decimal(5,2))", "decimal(5,2)", "error"},
		{"CAST('1' AS decimal)", "decimal(38,9)", "1"},
		{"CAST('2001-01-01' AS timestamp)", "timestamp", "2001-01-01T00:00:00Z"},
		{"CAST('2001-01-01 06:55' AS timestamp)", "timestamp", "2001-01-01T06:55:00Z"},
		{"CAST('978332100000' AS timestamp)", "timestamp", "2001-01-01T06:55:00Z"},
		{"CAST('2001-02-29' AS timestamp)", "timestamp", "error"},
		{"CAST('1h2m3.5s' AS duration)", "duration", "1h2m3.5s"},
		{"CAST('soon' AS duration)", "duration", "error"},
		{"CAST('aGk=' AS bytes)", "bytes", `"hi"`},
		{"CAST('a' AS bytes)", "bytes", "error"},
		{"CAST(n AS string)", "string", `"7"`},
		{"CAST(TRUE AS string)", "string", `"true"`},
		{"CAST(1.50 AS string)", "string", `"1.5"`},
		{"CAST(f AS string)", "string", `"0.5"`},
		{"CAST(1e21 AS string)", "string", `"1e+21"`},
		{"CAST(1e20 AS string)", "string", `"100000000000000000000"`},
		{"CAST(1e-7 AS string)", "string", `"0.0000001"`},
		{"CAST(5e-8 AS string)", "string", `"5e-8"`},
		{"CAST(ts AS string)", "string", `"2001-01-01T06:55:00.25Z"`},
		{"CAST(90s AS string)", "string", `"1m30s"`},
		{"CAST(CAST('aGk=' AS bytes) AS string)", "string", `"aGk="`},
		{"CAST(TRUE AS int)", "int", "1"},
		{"CAST(n AS float)", "float", "7"},
		{"CAST(big AS float)", "float", "1e+38"},
		{"CAST(big AS int)", "int", "error"},
		{"CAST(f AS decimal(3,2))", "decimal(3,2)", "0.5"},
	})
}

// selects holds conditions to the rows that they select.
func selects(t *testing.T, tab *table, facts map[string][]int32) {
	t.Helper()
	rows := tab.slice(0, len(tab.rows))
	for sql, want := range facts {
		p, errs := expr.CompilePredicate(sql, expr.NewScope("flow", tab.schema))
		if len(errs) > 0 {
			t.Errorf("%s is refused: %v", sql, errs)
			continue
		}
		ctx := &expr.Context{}
		if got := p.Select(ctx, rows, nil, nil); !slices.Equal(got, want) || len(ctx.Errors()) > 0 {
			t.Errorf("%s selects %v, not %v (%v)", sql, got, want, ctx.Errors())
		}
	}
}

// TestUnboundedFloatsByHand: files may hold infinities and not-a-number, which is equal to itself and above
// all others.
func TestUnboundedFloatsByHand(t *testing.T) {
	tab := &table{
		types:  []naive.Type{naive.FloatType, naive.FloatType},
		schema: &dataflow.Schema{Columns: []dataflow.Column{{Name: "x", Type: dataflow.FloatType}, {Name: "nan", Type: dataflow.FloatType}}},
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1, math.Copysign(0, -1)} {
		tab.rows = append(tab.rows, []naive.Value{{Float: f}, {Float: math.NaN()}})
	}
	selects(t, tab, map[string][]int32{
		"x = nan": {0}, "x <> nan": {1, 2, 3, 4}, "x < nan": {1, 2, 3, 4}, "x >= nan": {0}, "x > nan": {}, "nan > x": {1, 2, 3, 4},
		"x = x": {0, 1, 2, 3, 4}, "x IS DISTINCT FROM nan": {1, 2, 3, 4}, "x IN (nan, 1e0)": {0, 3}, "x NOT IN (nan, 1e0)": {1, 2, 4},
		"x > 0e0": {0, 1, 3}, "x >= 0e0": {0, 1, 3, 4}, "x < 1e0": {2, 4}, "x <= 1e0": {2, 3, 4}, "x = 1e0": {3}, "x <> 1e0": {0, 1, 2, 4},
		"NOT x > 0e0": {2, 4}, "NOT x <= 1e0": {0, 1}, "x BETWEEN 0e0 AND 1e308": {3, 4}, "x NOT BETWEEN 0e0 AND 1e308": {0, 1, 2},
		"0e0 = x": {4}, "x IN (0e0)": {4}, "greatest(x, 1e0) = nan": {0}, "least(x, nan) = nan": {0}, "x + 1 = x": {0, 1, 2}, "-x < 0e0": {1, 3}, "x * 2 > 1e308": {0, 1},
	})
}

// TestSelectInByHand: a constant NULL in the list, NULL among the rows, with a value of the list hidden
// beneath it.
func TestSelectInByHand(t *testing.T) {
	tab := &table{
		types: []naive.Type{naive.StringType, naive.IntType},
		schema: &dataflow.Schema{Columns: []dataflow.Column{
			{Name: "s", Type: dataflow.StringType, Nullable: true}, {Name: "n", Type: dataflow.IntType, Nullable: true},
		}},
	}
	a, b, null := []naive.Value{{Text: "a"}, {Int: 1}}, []naive.Value{{Text: "b"}, {Int: 2}}, []naive.Value{{Null: true}, {Null: true}}
	tab.rows = [][]naive.Value{a, null, b, a, null, a, b}
	tab.hidden = [][]naive.Value{a, a, a, a, a, a, a}
	selects(t, tab, map[string][]int32{
		"s IN ('a', NULL)": {0, 3, 5}, "n IN (1, NULL)": {0, 3, 5},
		"s IN ('a', 'c')": {0, 3, 5}, "n IN (1, 1000000)": {0, 3, 5},
		"s NOT IN ('a', 'c')": {2, 6}, "n NOT IN (1, 1000000)": {2, 6},
		"s NOT IN ('a', NULL)": {}, "n NOT IN (1, NULL)": {}, "NOT (n IN (1, NULL))": {},
		"s IN ('a', s)": {0, 2, 3, 5, 6}, "s IN ('a', NULL) IS NULL": {1, 2, 4, 6},
		"n IS NULL": {1, 4}, "n = 1 OR n IS NULL": {0, 1, 3, 4, 5}, "n <> 1": {2, 6}, "n IS DISTINCT FROM 1": {1, 2, 4, 6},
	})
}

func TestNamesByHand(t *testing.T) {
	checkFacts(t, []fact{
		{"flow.n", "int", "7"},
		{`"n"`, "int", "7"},
		{`flow."n"`, "int", "7"},
		{"UPPER('a')", "string", `"A"`},
		{"case when TRUE and not false then 1 end", "int", "1"},
		{"n in (7)", "bool", "true"},
	})
}
