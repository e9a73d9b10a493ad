package executor

import (
	"errors"
	"slices"

	"sluice/dataflow"
)

// Foresee tells how the state that was would leave fits query, if there is some of every operator. It reads none: the
// operators of both are built, and say what their state depends on.
func Foresee(was, query *dataflow.Physical, build Builder) (Change, error) {
	before, err := heirsOf(was, build)
	if err != nil {
		return Change{}, err
	}
	after, err := heirsOf(query, build)
	if err != nil {
		return Change{}, err
	}
	past := foreseen{prints: map[string]string{}}
	m := matcher{past: &past, origins: map[string]stateOrigin{}, heirs: after}
	for _, h := range before {
		past.names = append(past.names, h.name)
		past.prints[h.name], m.origins[h.name] = h.print, h.origin
	}
	slices.Sort(past.names)
	return m.change(m.takers()), nil
}

// heirsOf are the operators of a query that have state, one of each set of copies.
func heirsOf(p *dataflow.Physical, build Builder) (heirs []heir, err error) {
	c := &converter{cfg: ConvertConfig{Query: p, Build: build}}
	defer func() { err = errors.Join(err, c.close()) }()
	err = c.build()
	return c.matcher.heirs, err
}

// foreseen is a checkpoint that has state of all operators.
type foreseen struct {
	names  []string
	prints map[string]string
}

// Operators implements pastState.
func (f *foreseen) Operators() []string { return f.names }

// Fingerprint implements pastState.
func (f *foreseen) Fingerprint(operator string) string { return f.prints[operator] }
