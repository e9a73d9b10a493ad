package expr

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// TestLanguage runs the files in testdata/language. Their commands:
//
//	table      columns `name type`, with ? behind the type if it is nullable and ! if it is the event
//	           time, separated by |; then rows of literals. It stays until the next table.
//	eval       one expression a line: its type, and its value for each row, or the row error
//	select     one condition a line: the numbers of the rows for which it is TRUE
//	check      one expression a line: its faults, or its canonical text and type
//	map        one select list a line: the schema of its output
//	aggregate  lines `group-by: ...`, `select: ...`, `having: ...`; argument window: a window of time
//
// Every expression that is evaluated is also evaluated over many copies of the rows, for some rows
// only, and again from its canonical text.
func TestLanguage(t *testing.T) {
	datadriven.Walk(t, "testdata/language", func(t *testing.T, path string) {
		var tab *batch.Batch
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "table" {
				tab = parseTable(t, d)
				return ""
			}
			scope := NewScope("in", &dataflow.Schema{})
			if tab != nil {
				scope = NewScope("in", tab.Schema)
			}
			if d.Cmd == "aggregate" {
				return showAggregate(t, d, scope)
			}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				fmt.Fprintln(&out, answer(t, d, strings.TrimSpace(line), scope, tab))
			}
			return out.String()
		})
	})
}

func answer(t *testing.T, d *datadriven.TestData, line string, scope *Scope, tab *batch.Batch) string {
	if d.Cmd == "map" {
		plan, errs := CompileSelect(line, scope)
		if errs != nil {
			return errs.Error()
		}
		for i, p := range plan.Columns {
			if c := plan.Schema.Columns[i]; c.Type != p.Type() || c.Nullable != p.Nullable() {
				d.Fatalf(t, "column %d of %s does not fit its program", i, line)
			}
		}
		return plan.Schema.String()
	}
	compile := Compile
	if d.Cmd == "select" {
		compile = CompilePredicate
	}
	p, errs := compile(line, scope)
	if errs != nil {
		return errs.Error()
	}
	switch d.Cmd {
	case "check":
		null := ""
		if !p.Nullable() {
			null = " not null"
		}
		return p.String() + "  " + p.Type().String() + null
	case "eval":
		checkProgram(t, d, p, scope, tab)
		if tab == nil {
			return fmt.Sprintf("%s  %s", results(p, oneRow, nil)[0], p.Type())
		}
		return fmt.Sprintf("%s  %s", strings.Join(results(p, tab, nil), " "), p.Type())
	case "select":
		checkProgram(t, d, p, scope, tab)
		var ctx Context
		return strings.TrimSpace(fmt.Sprint(p.Select(&ctx, tab, nil, nil), shownErrors(&ctx)))
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

var oneRow = &batch.Batch{Schema: &dataflow.Schema{}, Len: 1}

func shownErrors(ctx *Context) string {
	var out strings.Builder
	for _, e := range ctx.Errors() {
		fmt.Fprintf(&out, "  %d: %s", e.Row, e.Message)
	}
	return out.String()
}

// results shows the value of p for each row of sel, or the row error.
func results(p *Program, b *batch.Batch, sel []int32) []string {
	ctx := Context{Clock: 978332100000000}
	v := p.Eval(&ctx, b, sel)
	failed := map[int32]string{}
	for _, e := range ctx.Errors() {
		failed[e.Row] = e.Message
	}
	var out []string
	for j := range count(b.Len, sel) {
		i := rowAt(sel, j)
		if m, ok := failed[i]; ok {
			out = append(out, "["+m+"]")
			delete(failed, i)
			continue
		}
		s := scalarAt(v, int(i))
		out = append(out, string(appendLiteral(nil, v.Type, &s)))
	}
	for row, m := range failed {
		out = append(out, fmt.Sprintf("an error in row %d, which is not asked for: %s", row, m))
	}
	return out
}

// checkProgram holds p against itself: many rows against few, some against all, conditions against
// values, and the canonical text against what was written.
func checkProgram(t *testing.T, d *datadriven.TestData, p *Program, scope *Scope, tab *batch.Batch) {
	t.Helper()
	compile := Compile
	if d.Cmd == "select" {
		compile = CompilePredicate
	}
	again, errs := compile(p.String(), scope)
	if errs != nil {
		d.Fatalf(t, "canonical text %s: %v", p, errs)
	}
	if again.String() != p.String() || again.Type() != p.Type() {
		d.Fatalf(t, "canonical text %s becomes %s %s", p, again, again.Type())
	}
	if tab == nil {
		tab = oneRow
	}
	want := results(p, tab, nil)
	if got := results(again, tab, nil); len(want) > 0 && fmt.Sprint(unquoted(got)) != fmt.Sprint(unquoted(want)) {
		d.Fatalf(t, "canonical text %s gives %v", p, got)
	}
	big := repeated(tab, 40)
	everything := results(p, big, nil)
	for i, v := range everything {
		if v != want[i%tab.Len] {
			d.Fatalf(t, "%s: row %d of many is %s, not %s", p, i, v, want[i%tab.Len])
		}
	}
	for _, step := range []int{1, 2, 3, 7} {
		sel := []int32{}
		for i := step / 2; i < big.Len; i += step {
			sel = append(sel, int32(i))
		}
		for j, v := range results(p, big, sel) {
			if v != everything[sel[j]] {
				d.Fatalf(t, "%s: row %d, selected, is %s, not %s", p, sel[j], v, everything[sel[j]])
			}
		}
		if k := p.Type().Kind; k == dataflow.Bool {
			checkSelect(t, d, p, big, everything, sel)
		}
	}
	if got := results(p, big, []int32{}); len(got) != 0 {
		d.Fatalf(t, "%s: without rows: %v", p, got)
	}
}

// unquoted drops the expressions that row errors quote, which are as they were written.
func unquoted(values []string) []string {
	out := slices.Clone(values)
	for i, v := range out {
		if at := strings.Index(v, ` in "`); at >= 0 && v[0] == '[' {
			out[i] = v[:at]
		}
	}
	return out
}

func checkSelect(t *testing.T, d *datadriven.TestData, p *Program, b *batch.Batch, values []string, sel []int32) {
	t.Helper()
	var ctx Context
	got := p.Select(&ctx, b, sel, nil)
	want := []int32{}
	for _, i := range sel {
		if values[i] == "TRUE" {
			want = append(want, i)
		}
	}
	if !slices.Equal(got, want) {
		d.Fatalf(t, "%s selects %v, not %v", p, got, want)
	}
	if got := p.Select(&ctx, b, sel, slices.Clone(sel)); !slices.Equal(got, want) {
		d.Fatalf(t, "%s selects %v in place, not %v", p, got, want)
	}
}

// repeated makes a batch of n copies of b.
func repeated(b *batch.Batch, n int) *batch.Batch {
	big := batch.New(b.Schema)
	for range n {
		for i := range b.Len {
			for c := range b.Cols {
				big.Cols[c].Append(&b.Cols[c], i)
			}
		}
	}
	big.Len = b.Len * n
	return big
}

func parseTable(t *testing.T, d *datadriven.TestData) *batch.Batch {
	lines := strings.Split(d.Input, "\n")
	schema := &dataflow.Schema{}
	for _, col := range strings.Split(lines[0], "|") {
		col = strings.TrimSpace(col)
		at := strings.LastIndexByte(col, ' ')
		name, typ := col[:at], col[at+1:]
		c := dataflow.Column{Name: strings.Trim(name, `"`), Nullable: strings.HasSuffix(typ, "?"), EventTime: strings.HasSuffix(typ, "!")}
		p := compileText(t, d, "CAST(NULL AS "+strings.TrimRight(typ, "?!")+")")
		c.Type = p.Type()
		schema.Columns = append(schema.Columns, c)
	}
	b := batch.New(schema)
	for _, line := range lines[1:] {
		for i, cell := range strings.Split(line, "|") {
			p := compileText(t, d, fmt.Sprintf("CAST(%s AS %s)", cell, schema.Columns[i].Type))
			var ctx Context
			b.Cols[i].Append(p.Eval(&ctx, oneRow, nil), 0)
			if len(ctx.Errors()) > 0 {
				d.Fatalf(t, "%s: %v", cell, ctx.Errors())
			}
		}
		b.Len++
	}
	return b
}

func compileText(t *testing.T, d *datadriven.TestData, text string) *Program {
	p, errs := Compile(text, NewScope("", &dataflow.Schema{}))
	if errs != nil {
		d.Fatalf(t, "%s: %v", text, errs)
	}
	return p
}

func showAggregate(t *testing.T, d *datadriven.TestData, scope *Scope) string {
	params := map[string]string{}
	for line := range strings.Lines(d.Input) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		params[name] = text
	}
	plan, errs := CompileAggregate(params["group-by"], params["select"], params["having"], scope, d.HasArg("window"))
	var out strings.Builder
	if errs != nil {
		for _, e := range errs {
			fmt.Fprintf(&out, "%s %d: %s\n", e.Param, e.Offset, e.Error)
		}
		return out.String()
	}
	for _, k := range plan.Keys {
		fmt.Fprintf(&out, "key: %s\n", k)
	}
	for _, c := range plan.Calls {
		fmt.Fprintf(&out, "call: %s  func %d", c.Text, c.Func)
		if c.Distinct {
			out.WriteString(" distinct")
		}
		if c.Arg != nil {
			fmt.Fprintf(&out, " of %s %s", c.Arg, c.Arg.Type())
		}
		if c.Filter != nil {
			fmt.Fprintf(&out, " where %s", c.Filter)
		}
		fmt.Fprintf(&out, " is %s\n", c.Type)
	}
	fmt.Fprintf(&out, "inter: %s\n", plan.Inter)
	for i, p := range plan.Output {
		fmt.Fprintf(&out, "output: %s = %s\n", plan.Schema.Columns[i].Name, p)
	}
	if plan.Having != nil {
		fmt.Fprintf(&out, "having: %s\n", plan.Having)
	}
	fmt.Fprintf(&out, "schema: %s\n", plan.Schema)
	return out.String()
}
