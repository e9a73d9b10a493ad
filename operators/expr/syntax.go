package expr

import "sluice/dataflow"

// span is a part of an expression's text, in bytes.
type span struct{ start, end int }

func (s span) where() span { return s }

// node is a parsed expression before names and types are looked at.
type node interface{ where() span }

type (
	literal struct {
		span
		typ dataflow.Type
		val scalar
	}
	column struct {
		span
		stream, name string
		nameAt       int // offset of the name itself
	}
	unary struct {
		span
		op string // "-", "+" or "NOT"
		x  node
	}
	// infix is an operator between two operands: arithmetic, "||", comparisons, "AND", "OR",
	// "IS DISTINCT FROM" and "IS NOT DISTINCT FROM".
	infix struct {
		span
		op   string
		x, y node
	}
	isNull struct {
		span
		not bool
		x   node
	}
	inList struct {
		span
		not  bool
		x    node
		list []node
	}
	between struct {
		span
		not       bool
		x, lo, hi node
	}
	like struct {
		span
		not                bool
		x, pattern, escape node // escape may be nil
	}
	caseOf struct {
		span
		operand node // nil in the form with conditions
		whens   []when
		other   node // nil if there is no ELSE
	}
	when struct{ cond, result node }
	cast struct {
		span
		x   node
		typ dataflow.Type
	}
	call struct {
		span
		name     string // in lower case
		args     []node
		star     bool // count(*)
		distinct bool
		filter   node // nil if there is none
	}
)

// item is one element of a select list or of a group-by list.
type item struct {
	span
	x      node // nil for * and stream.*
	stream string
	alias  string // "" if there is no AS
	nameAt int    // offset of the alias
}
