package expr_test

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow/batch"
	"sluice/internal/naive"
	"sluice/operators/expr"
)

// TestExpressionsAgreeWithNaive holds compiled expressions to the naive evaluator: the same value in
// each row or a row error in both, for all rows, for some, however the batch is cut, and as a condition.
func TestExpressionsAgreeWithNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{t: t, tab: newTable(t)}
		ctx := &expr.Context{}
		for range 40 {
			x := g.expression(pick(g, allKinds...), pick(g, 1, 1, 1, 1, 2, 2, 3, 4))
			newChecked(t, g.tab, ctx, x).check()
		}
	})
}

// checked is one expression under test.
type checked struct {
	t    *rapid.T
	tab  *table
	ctx  *expr.Context
	x    *naive.Node
	sql  string
	p    *expr.Program
	want []outcome // one for each row of the table
}

// outcome is what the naive evaluator says about a row.
type outcome struct {
	value naive.Value
	err   error
}

func newChecked(t *rapid.T, tab *table, ctx *expr.Context, x *naive.Node) *checked {
	c := &checked{t: t, tab: tab, ctx: ctx, x: x, sql: x.SQL()}
	c.p = c.compile(c.sql)
	for _, row := range tab.rows {
		v, err := x.Eval(row)
		c.want = append(c.want, outcome{v, err})
	}
	return c
}

func (c *checked) compile(sql string) *expr.Program {
	p, errs := expr.Compile(sql, expr.NewScope("flow", c.tab.schema))
	if len(errs) > 0 {
		c.t.Fatalf("%s\nis refused: %v", sql, errs)
	}
	if got, want := p.Type(), engineType(c.x.Type); got != want {
		c.t.Fatalf("%s\nis %v, not %v", sql, got, want)
	}
	return p
}

func (c *checked) check() {
	n := len(c.tab.rows)
	c.eval(c.p, c.tab.batch, 0, nil)
	sel := c.selection(n)
	c.eval(c.p, c.tab.batch, 0, sel)

	canonical := c.compile(c.p.String())
	if canonical.String() != c.p.String() {
		c.t.Fatalf("%s\nis written as\n%s\nand that as\n%s", c.sql, c.p.String(), canonical.String())
	}
	c.eval(canonical, c.tab.batch, 0, nil)

	cut := rapid.IntRange(0, n).Draw(c.t, "cut")
	c.eval(c.p, c.tab.slice(0, cut), 0, nil)
	c.eval(c.p, c.tab.slice(cut, n), cut, nil)
	if n > 64 {
		view := &batch.Batch{}
		view.Slice(c.tab.batch, 64, n)
		c.eval(c.p, view, 64, nil)
	}
	if c.x.Type.Kind == naive.Bool {
		c.rows(nil)
		c.rows(sel)
	}
}

// selection draws some rows of n in rising order.
func (c *checked) selection(n int) []int32 {
	every, from := rapid.IntRange(1, 5).Draw(c.t, "every"), rapid.IntRange(0, n).Draw(c.t, "from")
	sel := []int32{}
	for i := from; i < n; i += every {
		sel = append(sel, int32(i))
	}
	return sel
}

// rowsOf lists the rows of sel; nil lists all n.
func rowsOf(n int, sel []int32) []int32 {
	if sel != nil {
		return sel
	}
	sel = make([]int32, n)
	for i := range sel {
		sel[i] = int32(i)
	}
	return sel
}

// eval runs p over sel of b, whose first row is row from of the table.
func (c *checked) eval(p *expr.Program, b *batch.Batch, from int, sel []int32) {
	c.ctx.Reset()
	v := p.Eval(c.ctx, b, sel)
	if v.Len != b.Len {
		c.t.Fatalf("%s\ngives %d rows for %d", c.sql, v.Len, b.Len)
	}
	c.errors(from, rowsOf(b.Len, sel), func(i int) outcome { return c.want[i] })
	for _, i := range rowsOf(b.Len, sel) {
		want, got := c.want[from+int(i)], valueAt(v, int(i))
		if want.err != nil {
			if !got.Null {
				c.t.Fatalf("%s\nis %s in a row that has an error: %s", c.sql, got.Show(c.x.Type), c.show(from+int(i)))
			}
			continue
		}
		if !same(got, want.value, c.x.Type) {
			c.t.Fatalf("%s\nis %s, not %s, in row %d of %d (selection %v): %s", c.sql, got.Show(c.x.Type), want.value.Show(c.x.Type),
				i, b.Len, sel, c.show(from+int(i)))
		}
		if got.Null && !p.Nullable() {
			c.t.Fatalf("%s\nis NULL but not nullable: %s", c.sql, c.show(from+int(i)))
		}
	}
}

// errors compares the row errors of the last run with those expected in rows of the table, of which
// row from is the first one of the batch.
func (c *checked) errors(from int, rows []int32, want func(i int) outcome) {
	got := map[int32]string{}
	last := int32(-1)
	for _, e := range c.ctx.Errors() {
		if e.Row <= last {
			c.t.Fatalf("%s\nreports row %d after row %d", c.sql, e.Row, last)
		}
		got[e.Row], last = e.Message, e.Row
	}
	for _, i := range rows {
		want := want(from + int(i))
		message, failed := got[i]
		if failed && want.err == nil {
			c.t.Fatalf("%s\nfails with %q instead of %s: %s", c.sql, message, want.value.Show(c.x.Type), c.show(from+int(i)))
		}
		if !failed && want.err != nil {
			c.t.Fatalf("%s\ndoes not fail, though %v: %s", c.sql, want.err, c.show(from+int(i)))
		}
		delete(got, i)
	}
	for i, message := range got {
		c.t.Fatalf("%s\nfails with %q in row %d, which is not selected", c.sql, message, i)
	}
}

// rows runs the condition as a selection.
func (c *checked) rows(sel []int32) {
	p, errs := expr.CompilePredicate(c.sql, expr.NewScope("flow", c.tab.schema))
	if len(errs) > 0 {
		c.t.Fatalf("%s\nis refused as a condition: %v", c.sql, errs)
	}
	holds := func(i int) outcome {
		yes, err := c.x.Holds(c.tab.rows[i])
		return outcome{naive.Value{Bool: yes}, err}
	}
	n := len(c.tab.rows)
	c.ctx.Reset()
	got := p.Select(c.ctx, c.tab.batch, sel, nil)
	c.errors(0, rowsOf(n, sel), holds)
	k := 0
	for _, i := range rowsOf(n, sel) {
		want := holds(int(i))
		selected := k < len(got) && got[k] == i
		if selected {
			k++
		}
		if selected != (want.err == nil && want.value.Bool) {
			c.t.Fatalf("%s\nselects row %d: %v, expected %v %v (rows %v of %v): %s", c.sql, i, selected, want.value.Bool, want.err, got, sel, c.show(int(i)))
		}
	}
	if k != len(got) {
		c.t.Fatalf("%s\nselects rows that are not there: %v", c.sql, got)
	}
}

// show writes the columns of row i that the expression uses.
func (c *checked) show(i int) string {
	s, said := "", map[int]bool{}
	each(c.x, func(n *naive.Node) {
		if n.Op == "column" && !said[n.Column] {
			said[n.Column] = true
			s += c.tab.names[n.Column] + " " + n.Type.String() + " = " + c.tab.rows[i][n.Column].Show(n.Type) + "  "
		}
	})
	return s
}
