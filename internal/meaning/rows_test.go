package meaning

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// cell is one value that a writer got. A float is kept as such, everything else as text.
type cell struct {
	text  string
	float float64
}

type row []cell

// floatText is the text of a cell that holds a float.
const floatText = "float"

func (c cell) String() string {
	if c.text == floatText {
		return fmt.Sprint(c.float)
	}
	return c.text
}

// table is what a writer got, in order.
type table struct {
	columns []string
	rows    []row
}

func (t *table) String() string {
	var w strings.Builder
	fmt.Fprintln(&w, strings.Join(t.columns, ", "))
	for _, r := range t.rows {
		for i, c := range r {
			if i > 0 {
				w.WriteString(", ")
			}
			w.WriteString(c.String())
		}
		w.WriteString("\n")
	}
	return w.String()
}

// take adds the rows of a batch.
func (t *table) take(b *batch.Batch) {
	add := func(i int) {
		r := make(row, len(b.Cols))
		for c := range b.Cols {
			r[c] = cellOf(&b.Cols[c], i)
		}
		t.rows = append(t.rows, r)
	}
	if b.Sel == nil {
		for i := range b.Len {
			add(i)
		}
	}
	for _, i := range b.Sel {
		add(int(i))
	}
}

func cellOf(v *batch.Vector, i int) cell {
	if v.Type.Kind == dataflow.Float && !v.IsNull(i) {
		return cell{floatText, v.Floats[i]}
	}
	one := batch.New(&dataflow.Schema{Columns: []dataflow.Column{{Name: "x", Type: v.Type, Nullable: true}}})
	one.Cols[0].Append(v, i)
	one.Len = 1
	return cell{text: string(operators.AppendRow(nil, one, 0))}
}

// without is the table without a column.
func (t *table) without(column string) *table {
	at := slices.Index(t.columns, column)
	if at < 0 {
		return t
	}
	out := &table{columns: slices.Delete(slices.Clone(t.columns), at, at+1)}
	for _, r := range t.rows {
		out.rows = append(out.rows, slices.Delete(slices.Clone(r), at, at+1))
	}
	return out
}

// order says how much of the order of rows is to be the same.
type order struct {
	// any: none. Otherwise that of rows that are equal in the columns; without columns, of all.
	any     bool
	columns []string
}

var inOrder, anyOrder = order{}, order{any: true}

func (o order) String() string {
	switch {
	case o.any:
		return "in any order"
	case len(o.columns) > 0:
		return "in the order of rows with the same " + strings.Join(o.columns, ", ")
	}
	return "in order"
}

// difference tells how two tables differ, "" if they do not.
func difference(want, got *table, o order) string {
	if !slices.Equal(want.columns, got.columns) {
		return fmt.Sprintf("columns %v, want %v", got.columns, want.columns)
	}
	if len(want.rows) != len(got.rows) {
		return fmt.Sprintf("%d rows, want %d", len(got.rows), len(want.rows))
	}
	if !o.any {
		return differenceInOrder(want, got, o.columns)
	}
	return differenceInAnyOrder(want.rows, got.rows)
}

func differenceInOrder(want, got *table, columns []string) string {
	a, b := want.rows, got.rows
	if len(columns) > 0 {
		a, b = sortedBy(want, columns), sortedBy(got, columns)
	}
	for i := range a {
		if !equalRows(a[i], b[i]) {
			return fmt.Sprintf("row %d is %v, want %v", i+1, b[i], a[i])
		}
	}
	return ""
}

func sortedBy(t *table, columns []string) []row {
	var at []int
	for _, c := range columns {
		at = append(at, slices.Index(t.columns, c))
	}
	rows := slices.Clone(t.rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		for _, i := range at {
			if d := cmp.Or(strings.Compare(a[i].text, b[i].text), cmp.Compare(a[i].float, b[i].float)); d != 0 {
				return d
			}
		}
		return 0
	})
	return rows
}

// differenceInAnyOrder looks for a row that cannot be paired with an equal one.
func differenceInAnyOrder(want, got []row) string {
	byText := map[string][]row{}
	for _, r := range want {
		byText[r.texts()] = append(byText[r.texts()], r)
	}
	for _, r := range got {
		same := byText[r.texts()]
		i := slices.IndexFunc(same, func(w row) bool { return equalRows(w, r) })
		if i < 0 {
			return fmt.Sprintf("row %v is not wanted, or not so often", r)
		}
		byText[r.texts()] = slices.Delete(slices.Clone(same), i, i+1)
	}
	return ""
}

// texts is all of the row but its floats.
func (r row) texts() string {
	var w strings.Builder
	for _, c := range r {
		w.WriteString(c.text)
		w.WriteByte(0)
	}
	return w.String()
}

func equalRows(a, b row) bool {
	return slices.EqualFunc(a, b, func(x, y cell) bool { return x.text == y.text && equalFloats(x.float, y.float) })
}

func equalFloats(x, y float64) bool {
	return x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= 1e-9*max(math.Abs(x), math.Abs(y), 1e-3)
}
