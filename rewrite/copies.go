package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"sluice/dataflow"
)

// An operator that takes each row from whichever of its inputs brings it first needs the same rows in the same
// order on all of them. A rule may be applied to one of the copies alone, and if it divides that one's
// rows by key, they come in another order. Such a graph would lose rows and repeat others, so it is refused.

// copiesError tells that the copies that an operator chooses from differ in the order of their rows.
type copiesError struct {
	chooser string   // name of the operator
	divided string   // the operator whose rows one of the copies divides
	copies  []string // names of the operators that the copies are made of
}

func (e *copiesError) Error() string {
	return fmt.Sprintf("operator %q takes each row from the first copy that brings it, and not all copies would bring their rows in the same order: %q divides those of one; the same has to be done to each copy",
		e.chooser, e.divided)
}

// checkCopies finds an operator whose inputs are copies that differ in the order of their rows.
func checkCopies(g *dataflow.Graph) *copiesError {
	reordered := make(map[*dataflow.Operator]bool) // what divides rows so, and all behind it
	for _, op := range g.Operators {
		if reorders(op) {
			behind(op, reordered)
		}
	}
	for _, op := range g.Operators {
		if reordered[op] && op.Desc.Races && len(op.Inputs) > 1 {
			if err := checkChooser(g, op, reordered); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkChooser(g *dataflow.Graph, chooser *dataflow.Operator, reordered map[*dataflow.Operator]bool) *copiesError {
	e := &copiesError{chooser: chooser.Name}
	inputs := len(chooser.Inputs)
	reach := reaching(chooser, reordered)
	for _, op := range g.Operators {
		if n := reach[op]; n > 0 && n < inputs && reorders(op) {
			e.divided = op.Name
			break
		}
	}
	if e.divided == "" {
		return nil
	}
	reach = reaching(chooser, nil)
	for _, op := range g.Operators {
		if n := reach[op]; n > 0 && n < inputs {
			e.copies = append(e.copies, op.Name)
		}
	}
	first := ""
	for i, in := range chooser.Inputs {
		form := copyForm{shared: func(op *dataflow.Operator) bool { return reach[op] == inputs }, seen: make(map[*dataflow.Operator]int)}
		form.stream(in)
		if i == 0 {
			first = form.w.String()
		} else if form.w.String() != first {
			return e
		}
	}
	return nil
}

// behind adds op and all that read from it, by whatever way.
func behind(op *dataflow.Operator, found map[*dataflow.Operator]bool) {
	for todo := []*dataflow.Operator{op}; len(todo) > 0; {
		last := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !found[last] {
			found[last] = true
			todo = append(todo, consumersOf(last)...)
		}
	}
}

// reaching counts for each operator above the chooser to how many of its inputs a way leads, if within
// is not nil over operators in it alone.
func reaching(chooser *dataflow.Operator, within map[*dataflow.Operator]bool) map[*dataflow.Operator]int {
	reach := make(map[*dataflow.Operator]int)
	for _, first := range chooser.Inputs {
		found := make(map[*dataflow.Operator]bool)
		for todo := []*dataflow.Operator{first.From}; len(todo) > 0; {
			op := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if found[op] || within != nil && !within[op] {
				continue
			}
			found[op] = true
			reach[op]++
			for _, in := range op.Inputs {
				todo = append(todo, in.From)
			}
		}
	}
	return reach
}

// reorders tells whether rows come in another order after op has divided them and they have been joined
// again: not if they take turns by epochs, and keep their order on the way.
func reorders(op *dataflow.Operator) bool {
	if !op.Desc.Divides {
		return false
	}
	return op.Value("key") != "" || statefulPart(op)
}

// statefulPart tells whether between op and where its streams are joined again one keeps state.
func statefulPart(op *dataflow.Operator) bool {
	return slices.ContainsFunc(consumersOf(op), func(c *dataflow.Operator) bool {
		return !c.Desc.Sink() && (!c.Properties().Stateless || len(c.Inputs) == 1 && statefulPart(c))
	})
}

// copyForm writes what a copy does, without names, so that equal copies have equal forms. What only passes
// rows on, or chooses from copies in its turn, does not count.
type copyForm struct {
	w      strings.Builder
	shared func(op *dataflow.Operator) bool
	seen   map[*dataflow.Operator]int
}

func (f *copyForm) stream(in dataflow.Input) {
	port := in.From.Outputs[in.Output].Port
	if d := in.From.Desc; (d.Races || d.ManyOutputs && !d.Divides) && !f.shared(in.From) {
		f.stream(in.From.Inputs[0])
		return
	} else if d.ManyOutputs && !d.Divides {
		port = "" // all of its outputs carry the same
	}
	f.operator(in.From)
	f.w.WriteString(":" + port)
}

func (f *copyForm) operator(op *dataflow.Operator) {
	if f.shared(op) {
		fmt.Fprintf(&f.w, "%q", op.Name)
		return
	}
	n, known := f.seen[op]
	if !known {
		n = len(f.seen) + 1
		f.seen[op] = n
	}
	fmt.Fprintf(&f.w, "#%d", n)
	if known {
		return
	}
	f.w.WriteString(op.Type + "{")
	for _, p := range op.Desc.Params {
		fmt.Fprintf(&f.w, "%q,", op.Value(p.Name))
	}
	f.w.WriteString("}(")
	for _, in := range op.Inputs {
		f.stream(in)
		f.w.WriteString(",")
	}
	f.w.WriteString(")")
}
