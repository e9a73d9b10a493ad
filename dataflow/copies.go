package dataflow

// StateKeys names the state of each operator so that whatever may go on with it finds it: the copies of
// one operator whose streams meet in a stream selector have the same key, the name of the first of them;
// every other operator has its own name.
func StateKeys(g *Graph) map[*Operator]string {
	keys := make(map[*Operator]string, len(g.Operators))
	for _, op := range g.Operators {
		keys[op] = op.Name
	}
	for _, op := range g.Topological() {
		if op.Desc == nil || !op.Desc.Races {
			continue
		}
		for _, in := range op.Inputs[1:] {
			shareKeys(keys, op.Inputs[0].From, in.From)
		}
	}
	return keys
}

// shareKeys gives copy, and what is above it, the keys of first and of what is above that, up to where
// the two have a common operator.
func shareKeys(keys map[*Operator]string, first, copy *Operator) {
	if first == copy || first.Type != copy.Type || len(first.Inputs) != len(copy.Inputs) {
		return
	}
	keys[copy] = keys[first]
	for i := range first.Inputs {
		shareKeys(keys, first.Inputs[i].From, copy.Inputs[i].From)
	}
}
