package dataflow

import (
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a source text. Line and Col count from 1, Col in characters; zero means unknown.
type Pos struct {
	File string
	Line int
	Col  int
}

// String gives "file:line:col", leaving out what is unknown.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Severity tells an error, which stops a spec from being run, from a warning, which does not.
type Severity uint8

// The severities.
const (
	Error Severity = iota
	Warning
)

// Diagnostic is one thing that is wrong with a spec, told so that its author can mend it.
type Diagnostic struct {
	Severity   Severity
	Pos        Pos
	Operator   string // name of the operator concerned, if there is one
	Message    string // what is wrong
	Suggestion string // the known name that was probably meant; may be empty
}

// String gives the one-line form:
//
//	spec.xml:12:5: operator "late": unknown column "dealy" in condition; did you mean "delay"?
func (d Diagnostic) String() string {
	var b strings.Builder
	if p := d.Pos.String(); p != "" {
		b.WriteString(p)
		b.WriteString(": ")
	}
	if d.Severity == Warning {
		b.WriteString("warning: ")
	}
	if d.Operator != "" {
		fmt.Fprintf(&b, "operator %q: ", d.Operator)
	}
	b.WriteString(d.Message)
	if d.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %q?", d.Suggestion)
	}
	return b.String()
}

// Diagnostics is a list of diagnostics. As an error its text is one line for each.
type Diagnostics []Diagnostic

func (ds Diagnostics) Error() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// HasErrors reports whether any of them is more than a warning.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Sort orders by file, line and column and drops exact repetitions.
func (ds *Diagnostics) Sort() {
	slices.SortStableFunc(*ds, func(a, b Diagnostic) int {
		if c := strings.Compare(a.Pos.File, b.Pos.File); c != 0 {
			return c
		}
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Col - b.Pos.Col
	})
	*ds = slices.Compact(*ds)
}
