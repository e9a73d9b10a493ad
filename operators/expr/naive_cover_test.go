package expr_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"sluice/internal/naive"
	"sluice/operators/expr"
)

// aside are functions that the generator leaves out: now has no value of its own, and hash none that is
// prescribed. TestNow and TestHash look at them.
var aside = map[string]bool{"now": true, "hash": true}

// sample is a random table with an expression over it and what becomes of its rows.
type sample struct {
	ops                   []string
	values, nulls, errors int
}

// TestGeneratorCoversTheLanguage: all functions and operators occur, and results are not mostly NULL or
// errors, else the property would say little.
func TestGeneratorCoversTheLanguage(t *testing.T) {
	samples := rapid.Custom(func(t *rapid.T) sample {
		g := &generator{t: t, tab: newTable(t)}
		var s sample
		for range 8 {
			x := g.expression(pick(g, allKinds...), g.int(1, 4))
			s.ops = append(s.ops, operations(x)...)
			for _, row := range g.tab.rows {
				switch v, err := x.Eval(row); {
				case err != nil:
					s.errors++
				case v.Null:
					s.nulls++
				default:
					s.values++
				}
			}
		}
		return s
	})
	seen := map[string]int{}
	var all sample
	for i := range 300 {
		s := samples.Example(i)
		for _, op := range s.ops {
			seen[op]++
		}
		all.values, all.nulls, all.errors = all.values+s.values, all.nulls+s.nulls, all.errors+s.errors
	}
	rows := all.values + all.nulls + all.errors
	t.Logf("of %d rows %d have a value, %d are NULL and %d have an error", rows, all.values, all.nulls, all.errors)
	if all.values*5 < rows*2 || all.nulls*20 < rows || all.errors*50 < rows {
		t.Errorf("of %d rows %d have a value, %d are NULL and %d have an error", rows, all.values, all.nulls, all.errors)
	}
	for _, f := range expr.Functions() {
		if !f.Aggregate && !aside[f.Name] && seen[f.Name+"()"] == 0 {
			t.Errorf("no expression calls %s", f.Name)
		}
	}
	ops := "+ - * / % neg || = <> != < <= > >= and or not cast like case coalesce() literal column"
	for _, op := range append(strings.Fields(ops), "is null", "is not null", "is distinct from", "is not distinct from", "in", "not in",
		"between", "not between", "not like", "case of", "is true", "is not true", "is false", "is not false") {
		if seen[op] == 0 {
			t.Errorf("no expression uses %s", op)
		}
	}
}

func TestNow(t *testing.T) {
	tab := caseTable()
	p, errs := expr.Compile("now()", expr.NewScope("flow", caseSchema))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, clock := range []int64{0, 978332100250000, -1} {
		ctx := &expr.Context{Clock: clock}
		if got := valueAt(p.Eval(ctx, tab.batch, nil), 0); got.Null || got.Int != clock {
			t.Errorf("now() is %s when the clock is %d", got.Show(naive.TimestampType), clock)
		}
	}
}

// TestHash: what is equal has the same hash, whatever its scale, and other values practically never.
func TestHash(t *testing.T) {
	checkFacts(t, []fact{
		{"hash(1.5) = hash(1.50)", "bool", "true"},
		{"hash(n) = hash(7)", "bool", "true"},
		{"hash(s) = hash('Ünï 😀')", "bool", "true"},
		{"hash(0e0) = hash(-0e0)", "bool", "true"},
		{"hash(n) = hash(8)", "bool", "false"},
		{"hash('a', 'b') = hash('ab')", "bool", "false"},
		{"hash('a', 'b') = hash('b', 'a')", "bool", "false"},
		{"hash('ab', 'c') = hash('a', 'bc')", "bool", "false"},
		{"hash(null_flag) IS NULL", "bool", "false"},
		{"hash(null_flag) = hash(FALSE)", "bool", "false"},
	})
}

// TestHashIsTheSameInEveryRelease spells out the bytes that are hashed.
func TestHashIsTheSameInEveryRelease(t *testing.T) {
	hash := func(b ...byte) string { return strconv.FormatInt(int64(xxh3.Hash(b)), 10) }
	zeros := make([]byte, 14)
	checkFacts(t, []fact{
		{"hash(n)", "int", hash(2, 7, 0, 0, 0, 0, 0, 0, 0)},
		{"hash(-2)", "int", hash(2, 254, 255, 255, 255, 255, 255, 255, 255)},
		{"hash(null_flag)", "int", hash(0)},
		{"hash(TRUE, NULL)", "int", hash(1, 1, 0)},
		{"hash(f)", "int", hash(3, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f)},
		{"hash(-0e0)", "int", hash(3, 0, 0, 0, 0, 0, 0, 0, 0)},
		{"hash(25.800)", "int", hash(append([]byte{4, 1, 2, 1}, zeros...)...)},
		{"hash(CAST(300 AS decimal(10,0)))", "int", hash(append([]byte{4, 0, 44, 1}, zeros...)...)},
		{"hash('hi', CAST('aGk=' AS bytes))", "int", hash(5, 2, 0, 0, 0, 'h', 'i', 6, 2, 0, 0, 0, 'h', 'i')},
		{"hash(TIMESTAMP '1970-01-01 00:00:00.000258')", "int", hash(7, 2, 1, 0, 0, 0, 0, 0, 0)},
		{"hash(1us)", "int", hash(8, 1, 0, 0, 0, 0, 0, 0, 0)},
	})
}
