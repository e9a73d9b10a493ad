package expr

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

func mustCompile(t *testing.T, text string) *Program {
	t.Helper()
	p, errs := Compile(text, NewScope("t", sampleSchema))
	if errs != nil {
		t.Fatalf("%s: %v", text, errs)
	}
	return p
}

// TestColumnsAreShared: a program that is a column gives the column itself.
func TestColumnsAreShared(t *testing.T) {
	tab := sampleBatch(10)
	for text, index := range map[string]int{"s": 5, "t.i": 0, "(ts)": 6, "i + 0": -1, "s || ''": -1} {
		p := mustCompile(t, text)
		if p.ColumnIndex() != index {
			t.Errorf("%s is column %d, not %d", text, p.ColumnIndex(), index)
		}
		var ctx Context
		if v := p.Eval(&ctx, tab, nil); index >= 0 && v != &tab.Cols[index] {
			t.Errorf("%s is a copy of its column", text)
		}
	}
}

// TestRowErrors: sorted by row, one for each row, the first that was met; forgotten by Reset.
func TestRowErrors(t *testing.T) {
	tab := sampleBatch(100)
	p, q := mustCompile(t, "CASE WHEN i % 2 = 0 THEN i ELSE 1 / 0 END"), mustCompile(t, "1 / (i - i) + 2 / 0")
	var ctx Context
	p.Eval(&ctx, tab, nil)
	odd := len(ctx.Errors())
	if odd == 0 || odd == 100 {
		t.Fatalf("%d errors", odd)
	}
	q.Eval(&ctx, tab, nil)
	errs := ctx.Errors()
	if len(errs) != 100 {
		t.Fatalf("%d errors in 100 rows", len(errs))
	}
	for i, e := range errs {
		want := `division by zero in "1 / (i - i)"`
		if tab.Cols[0].Ints[i]%2 != 0 {
			want = `division by zero in "1 / 0"`
		}
		if e.Row != int32(i) || e.Message != want {
			t.Fatalf("error %d is %v, not %s", i, e, want)
		}
	}
	ctx.Reset()
	if len(ctx.Errors()) != 0 {
		t.Fatal("errors after Reset")
	}
	p.Eval(&ctx, tab, []int32{})
	if len(ctx.Errors()) != 0 {
		t.Fatal("errors without rows")
	}
}

// TestErrorsUnderOtherParts: a row that has an error is NULL and not selected, whatever the faulty part
// stands in.
func TestErrorsUnderOtherParts(t *testing.T) {
	tab := sampleBatch(70)
	var ctx Context
	for _, text := range []string{"coalesce(1 / 0, i)", "concat(1 / 0)", "(1 / 0) IS NULL", "hash(1 / 0)"} {
		ctx.Reset()
		v := mustCompile(t, text).Eval(&ctx, tab, nil)
		for i := range tab.Len {
			if !v.IsNull(i) {
				t.Fatalf("%s is not NULL in row %d", text, i)
			}
		}
	}
	for _, again := range []bool{false, true} { // the errors may be known already
		if rows := mustCompile(t, "1 / 0 > 2 OR TRUE").Select(&ctx, tab, nil, nil); len(rows) != 0 {
			t.Fatalf("selected %v, errors known: %v", rows, again)
		}
	}
}

// TestSelectedTextIsInOrder: offsets of text are in order although some rows are not computed.
func TestSelectedTextIsInOrder(t *testing.T) {
	tab := sampleBatch(200)
	for _, text := range []string{"s || 'x'", "CAST(i AS string)", "CASE WHEN b THEN s ELSE 'no' END", "coalesce(s, 'x')",
		"greatest(s, 'v5')", "raw || raw", "CAST(CAST(raw AS string) AS bytes)"} {
		p := mustCompile(t, text)
		for _, sel := range [][]int32{nil, {}, {0}, {199}, {3, 4, 77}} {
			var ctx Context
			v := p.Eval(&ctx, tab, sel)
			if v.Len != tab.Len || len(v.Offsets) != tab.Len+1 || v.Offsets[0] != 0 {
				t.Fatalf("%s: %d rows, %d offsets from %d", text, v.Len, len(v.Offsets), v.Offsets[0])
			}
			if !slices.IsSorted(v.Offsets) || int(v.Offsets[tab.Len]) > len(v.Data) {
				t.Fatalf("%s, rows %v: offsets %v", text, sel, v.Offsets)
			}
		}
	}
}

// TestSmallerBatches: a program goes from large batches to small ones and back.
func TestSmallerBatches(t *testing.T) {
	p := mustCompile(t, "CASE WHEN i > 500 THEN s || 'x' ELSE 'const' END")
	var ctx Context
	for _, n := range []int{1000, 1, 0, 64, 65, 3000} {
		if v := p.Eval(&ctx, sampleBatch(n), nil); v.Len != n {
			t.Fatalf("%d rows for %d", v.Len, n)
		}
	}
}

func TestSeveralStreams(t *testing.T) {
	left := &dataflow.Schema{Columns: []dataflow.Column{{Name: "id", Type: dataflow.IntType}, {Name: "x", Type: dataflow.IntType}}}
	right := &dataflow.Schema{Columns: []dataflow.Column{{Name: "id", Type: dataflow.StringType}, {Name: "y", Type: dataflow.IntType}}}
	scope := NewScope("a", left).Add("b", right)
	for text, want := range map[string]string{
		"x + y": "", "a.id + 1": "", "b.id || 'x'": "",
		"id = 1":  `0: column "id" is ambiguous: a.id, b.id`,
		"a.y > 1": `2: unknown column "y"`,
		"c.x > 1": `0: unknown stream "c"`,
	} {
		_, errs := Compile(text, scope)
		if got := errs.Error(); got != want {
			t.Errorf("%s: %q, not %q", text, got, want)
		}
	}
	if p, _ := Compile("y", scope); p.ColumnIndex() != 3 {
		t.Errorf("y is column %d", p.ColumnIndex())
	}
	if plan, errs := CompileSelect("b.*, a.x", scope); errs != nil || plan.Schema.String() != "(id string not null, y int not null, x int not null)" {
		t.Errorf("%v %v", plan, errs)
	}
}

// TestUnknownSchema: where the input is not known, nothing follows from that, but what is wrong by itself is
// still found.
func TestUnknownSchema(t *testing.T) {
	scope := NewScope("t", nil)
	for text, faults := range map[string]int{"a > 1 AND b": 0, "t.a > lower(5)": 1, "t.a + foo(1)": 1, "1 + 'x' = a": 1, "u.a = 'x' + 1": 2} {
		if _, errs := CompilePredicate(text, scope); len(errs) != faults {
			t.Errorf("%s: %v", text, errs)
		}
	}
	if plan, errs := CompileSelect("*, a, b AS c", scope); errs != nil || plan == nil || plan.Schema != nil {
		t.Errorf("%v %v", plan, errs)
	}
	if plan, errs := CompileAggregate("a", "a, sum(b) AS s", "s > 1", scope, true); errs != nil || plan == nil || plan.Schema != nil {
		t.Errorf("%v %v", plan, errs)
	}
	if _, errs := CompileAggregate("a", "a, sum(b) AS s, foo(1) AS t", "s > 1", scope, true); len(errs) != 1 {
		t.Errorf("%v", errs)
	}
}

// TestBounds: what is too large or too deep is refused, and what is just not is accepted.
func TestBounds(t *testing.T) {
	repeat := strings.Repeat
	for _, c := range []struct{ text, fault string }{
		{repeat("(", 150) + "i" + repeat(")", 150), ""},
		{repeat("(", 100000/2) + "i", "nested more than 200 deep"},
		{repeat("NOT ", 5000) + "b", "nested more than 200 deep"},
		{repeat("- ", 5000) + "i", "nested more than 200 deep"},
		{"i" + repeat("+i", 1500), ""},
		{"i" + repeat("+i", 20000), "more than 4000 parts"},
		{"i IN (1" + repeat(",1", 20000) + ")", ""},
		{"'" + repeat("x", 70000) + "'", "more than 65536"},
		{repeat("CASE WHEN b THEN ", 300) + "i", "nested more than 200 deep"},
		{"\xff", "not valid UTF-8"},
	} {
		_, errs := Compile(c.text, NewScope("t", sampleSchema))
		if c.fault == "" && errs != nil || c.fault != "" && (len(errs) != 1 || !strings.Contains(errs[0].Message, c.fault)) {
			t.Errorf("%.40s...: %v, not %q", c.text, errs, c.fault)
		}
	}
	nested := "i"
	for range 60 { // shared parts must not be visited once for each way to them
		nested = "nullif(" + nested + " + 1, 2)"
	}
	var ctx Context
	mustCompile(t, nested).Eval(&ctx, sampleBatch(10), nil)
}

// TestHashIsAsDocumented computes hashes by the words of the manual.
func TestHashIsAsDocumented(t *testing.T) {
	number := func(kind byte, v uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{kind}, v) }
	for text, hashed := range map[string][]byte{
		"hash(1)":          number(2, 1),
		"hash(NULL)":       {0},
		"hash(TRUE)":       {1, 1},
		"hash('abc')":      []byte("\x05\x03\x00\x00\x00abc"),
		"hash(1.50)":       append(binary.LittleEndian.AppendUint64([]byte{4, 1}, 15), make([]byte, 8)...),
		"hash(5m, 'x')":    append(number(8, 300e6), "\x05\x01\x00\x00\x00x"...),
		"hash(1e0)":        number(3, 0x3ff0000000000000),
		"hash(-0e0)":       number(3, 0),
		"hash(NULL, NULL)": {0, 0},
	} {
		var ctx Context
		v := mustCompile(t, text).Eval(&ctx, &batch.Batch{Schema: sampleSchema, Len: 1}, nil)
		if want := int64(xxh3.Hash(hashed)); v.Ints[0] != want {
			t.Errorf("%s is %d, not %d", text, v.Ints[0], want)
		}
	}
}

// TestEveryFunctionIsDocumented: in the reference and in the manual.
func TestEveryFunctionIsDocumented(t *testing.T) {
	manual, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	docs := Functions()
	for i, f := range docs {
		if i > 0 && docs[i-1].Aggregate == f.Aggregate && docs[i-1].Name >= f.Name {
			t.Errorf("%s stands behind %s", f.Name, docs[i-1].Name)
		}
		if f.Doc == "" || len(f.Signatures) == 0 {
			t.Errorf("%s has no doc or no signature", f.Name)
		}
		for _, s := range f.Signatures {
			if !strings.HasPrefix(s, f.Name+"(") {
				t.Errorf("%s has the signature %s", f.Name, s)
			}
		}
		if !strings.Contains(string(manual), f.Name) {
			t.Errorf("%s is not in doc.go", f.Name)
		}
	}
}
