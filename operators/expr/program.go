package expr

import (
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// Program is a compiled expression. One goroutine at a time uses it; it owns the memory that it works
// in, so that after the first few calls nothing is allocated.
type Program struct {
	text  string
	typed *typed
	value evaluator
	cond  selector
	run   run

	// The result where there were row errors.
	marked batch.Vector
	valid  batch.Bitmap
}

// Compile compiles an expression. It reports all faults at once, sorted by offset; the program is nil
// if there are any. In a scope of which a schema is not known the program may be of the kind Invalid, and
// then is not fit to be run.
func Compile(text string, s *Scope) (*Program, Errors) {
	n, t, errs := analyse(text, s)
	if len(errs) > 0 {
		return nil, errs
	}
	return newProgram(text, n, t), nil
}

// CompilePredicate compiles an expression that must be a bool or NULL.
func CompilePredicate(text string, s *Scope) (*Program, Errors) {
	n, t, errs := analyse(text, s)
	if len(errs) == 0 {
		c := checker{text: text, scope: s, errs: &errs}
		t = c.condition(t, "a condition")
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return newProgram(text, n, t), nil
}

// analyse parses and checks an expression.
func analyse(text string, s *Scope) (node, *typed, Errors) {
	n, errs := parseExpression(text)
	if n == nil {
		return nil, nil, errs
	}
	c := checker{text: text, scope: s, errs: &errs}
	t := c.check(n)
	errs.sort()
	return n, t, errs
}

func newProgram(text string, n node, t *typed) *Program {
	t.attach(text)
	return &Program{text: format(n), typed: t}
}

// Type is the type of the values that p computes; that of a bare NULL has the kind Null.
func (p *Program) Type() dataflow.Type { return p.typed.typ }

// Nullable reports whether p may be NULL for a row without a row error.
func (p *Program) Nullable() bool { return p.typed.nullable }

// ColumnIndex returns the index of the input column that p is, -1 if it is more than a column. Eval
// gives that column itself then.
func (p *Program) ColumnIndex() int {
	if p.typed.op != opColumn {
		return -1
	}
	return p.typed.index
}

// Columns returns the indices of the input columns that p reads, in no order; one may come several times.
func (p *Program) Columns() []int { return p.typed.columns(nil) }

func (t *typed) columns(list []int) []int {
	if t.op == opColumn {
		list = append(list, t.index)
	}
	for _, a := range t.args {
		list = a.columns(list)
	}
	return list
}

// String gives the canonical text of p, which compiles to the same program.
func (p *Program) String() string { return p.text }

// Eval computes p for the rows of b that sel lists in rising order; nil lists all b.Len of them. It does
// not look at b.Sel. The vector has the length b.Len, and its rows that are not in sel are undefined. It
// belongs to p and is valid until p's next Eval or Select, or is a column of b. A row error makes the row
// NULL and is added to ctx.
func (p *Program) Eval(ctx *Context, b *batch.Batch, sel []int32) *batch.Vector {
	if p.value == nil {
		p.value = newBuilder().value(p.typed)
	}
	p.run.begin(ctx, b)
	known := ctx.faults
	v := p.value.eval(&p.run, sel)
	if ctx.faults > known {
		return p.markErrors(v, ctx.errs)
	}
	return v
}

// markErrors makes the rows NULL that have an error, even if it is in a part of p that does not make p
// NULL, such as coalesce(1 / 0, 2).
func (p *Program) markErrors(v *batch.Vector, errs []RowError) *batch.Vector {
	p.marked = *v
	p.valid = batch.GrowBitmap(p.valid, v.Len)
	p.valid.Fill(v.Len, true)
	if v.Valid != nil {
		copy(p.valid, v.Valid)
	}
	for _, e := range errs {
		p.valid.Clear(int(e.Row))
	}
	p.marked.Valid = p.valid
	return &p.marked
}

// Select appends to dst[:0] the rows, of those that sel lists in rising order, for which the predicate
// is TRUE, and returns it; nil lists all b.Len rows. It does not look at b.Sel. dst may be sel itself. A
// row error leaves the row out and is added to ctx. The result is never nil.
func (p *Program) Select(ctx *Context, b *batch.Batch, sel []int32, dst []int32) []int32 {
	if p.cond == nil {
		p.cond = newBuilder().selector(p.typed, true)
	}
	p.run.begin(ctx, b)
	known := ctx.faults
	rows := p.cond.rows(&p.run, sel, dst)
	if ctx.faults > known {
		rows = slices.DeleteFunc(rows, func(row int32) bool { return ctx.failed(row) })
	}
	return rows
}

// Context carries what expressions see beside the row, and collects row errors. Its zero value is ready
// for use. One goroutine at a time uses it.
type Context struct {
	Clock int64 // what now() gives: the clock of the epoch, in microseconds since 1970 UTC

	errs   []RowError
	seen   batch.Bitmap // rows in errs
	faults int          // how often fail was called
	sorted bool
}

// RowError tells why a row has no value.
type RowError struct {
	Row     int32
	Message string // such as: integer overflow in "a + b"
}

// Errors returns the row errors since Reset, sorted by row: for each row the first that was met. The
// slice is valid until the next use of c.
func (c *Context) Errors() []RowError {
	if !c.sorted {
		slices.SortFunc(c.errs, func(a, b RowError) int { return int(a.Row - b.Row) })
		c.sorted = true
	}
	return c.errs
}

// Reset forgets the row errors; it is called before each batch.
func (c *Context) Reset() {
	for _, e := range c.errs {
		c.seen.Clear(int(e.Row))
	}
	c.errs, c.sorted = c.errs[:0], true
}

func (c *Context) fail(row int32, message string) {
	c.faults++
	if w := batch.Words(int(row) + 1); len(c.seen) < w {
		c.seen = append(c.seen, make(batch.Bitmap, w-len(c.seen))...)
	}
	if c.seen.Get(int(row)) {
		return
	}
	c.seen.Set(int(row))
	c.errs = append(c.errs, RowError{row, message})
	c.sorted = false
}

// failed reports whether a row has an error.
func (c *Context) failed(row int32) bool {
	return int(row) < len(c.seen)*64 && c.seen.Get(int(row))
}

// run is one call of Eval or Select.
type run struct {
	ctx *Context
	b   *batch.Batch
	n   int    // b.Len
	seq uint64 // tells one run from the next
}

func (r *run) begin(ctx *Context, b *batch.Batch) {
	r.ctx, r.b, r.n, r.seq = ctx, b, b.Len, r.seq+1
}
