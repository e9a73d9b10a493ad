package dataflow

// ResolvePart is Resolve for a few operators of a graph the rest of which is resolved. Those come in an order in which
// each is after all that it reads, and their inputs say already from which outputs they read (From, Output).
// It sets descriptors and schemas, and leaves consumers to the caller, as it does what concerns the graph as a
// whole: that names are unique, that there is no cycle, and what is not used. done, if not nil, is called after each
// operator, before those that read it.
func ResolvePart(g *Graph, cat Catalog, ops []*Operator, done func(*Operator)) Diagnostics {
	r := &resolver{g: g, cat: cat, suggest: suggester{work: suggestWork}}
	r.collectTypes()
	for _, op := range ops {
		u := &use{op: op}
		r.bind(u)
		inputs := make([]CheckInput, len(op.Inputs))
		for j := range op.Inputs {
			in := &op.Inputs[j]
			inputs[j] = in.read(&in.From.Outputs[in.Output])
		}
		r.check(u, inputs)
		if done != nil {
			done(op)
		}
	}
	r.diags.Sort()
	return r.diags
}

// Cycles reports each cycle among the operators once, as Resolve does. Their inputs say from which operators they read
// (From); as gives the operator of the list that stands for one, itself for most.
func Cycles(ops []*Operator, as func(*Operator) *Operator) Diagnostics {
	r := &resolver{g: &Graph{Operators: ops}}
	index := make(map[*Operator]int, len(ops))
	for i, op := range ops {
		index[op] = i
	}
	e := newEdges(len(ops))
	for i, op := range ops {
		for _, in := range op.Inputs {
			if from, ok := index[as(in.From)]; ok {
				e.add(from, i)
			}
		}
	}
	r.reportCycles(e)
	r.diags.Sort()
	return r.diags
}
