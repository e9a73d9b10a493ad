package rewrite

import (
	"fmt"
	"slices"

	"sluice/dataflow"
)

// Replicas that each work on a part of the keys give their rows in another order between keys. What is behind
// them may depend on that order, unless it tells the same keys apart: then all rows of one of its groups
// are from one replica, and in order.

// rowOrder is what is known of the order of a stream's rows.
type rowOrder struct {
	// columns are such that rows that are equal in them are in their order.
	columns []string
	// lost tells that there are no such columns, kept that all rows are in their order.
	lost, kept bool
}

// streamOf is an output of an operator.
type streamOf struct {
	op     *dataflow.Operator
	output int
}

// orders are those of the streams whose rows may be in another order.
type orders map[streamOf]rowOrder

// unordered tells whether nothing behind f depends on the order of rows that differ in its key.
func unordered(f *dataflow.Operator, properties propertyMemo) (bool, string) {
	known := orders{}
	todo := known.give(f, held(properties.of(f).KeyOutputs))
	for len(todo) > 0 {
		op := todo[0]
		todo = todo[1:]
		in := known.input(op)
		p := properties.of(op)
		switch {
		case op.Desc.Sink():
		case p.Stateless:
			todo = append(todo, known.give(op, passed(op, in))...)
		case in.within(p.KeyInputs):
			var columns []string
			for _, c := range in.columns {
				columns = append(columns, p.KeyOutputs[slices.Index(p.KeyInputs, c)])
			}
			todo = append(todo, known.give(op, held(columns))...)
		case !p.Commutative:
			return false, fmt.Sprintf("%s, which comes behind %s, depends on the order of its rows", describe(op), describe(f))
		case !p.Keyed:
			todo = append(todo, known.give(op, rowOrder{kept: true})...)
		default:
			// Its rows come by its own keys, whatever the order of those that it reads.
			todo = append(todo, known.give(op, held(p.KeyOutputs))...)
		}
	}
	return true, ""
}

// held is the order of rows that are in order for equal keys, which the columns hold; there are none for
// an operator without a key, or if one has no column.
func held(columns []string) rowOrder {
	if len(columns) == 0 || slices.Contains(columns, "") {
		return rowOrder{lost: true}
	}
	return rowOrder{columns: columns}
}

// within tells whether rows that are equal in the keys are in order.
func (o rowOrder) within(keys []string) bool {
	return !o.lost && !slices.ContainsFunc(o.columns, func(c string) bool { return !slices.Contains(keys, c) })
}

// passed is the order of what an operator without state gives.
func passed(op *dataflow.Operator, in rowOrder) rowOrder {
	if op.Desc.Copied == nil || in.lost {
		return in
	}
	var columns []string
	copies := op.Desc.Copied(op)
	for _, c := range in.columns {
		name := ""
		for out, from := range copies {
			if from == c && (name == "" || out < name) {
				name = out
			}
		}
		columns = append(columns, name)
	}
	return held(columns)
}

// input is the order of what the operator reads, of all its inputs together.
func (known orders) input(op *dataflow.Operator) rowOrder {
	var all *rowOrder
	for _, in := range op.Inputs {
		o, reordered := known[streamOf{in.From, in.Output}]
		switch {
		case !reordered:
		case all == nil:
			all = &o
		case all.lost || o.lost || !slices.Equal(all.columns, o.columns):
			all = &rowOrder{lost: true}
		}
	}
	return *all
}

// give notes the order of what op gives, and returns the readers for whom that is news. Only on the main
// output, and on those of nodes that have several of equal rank, are the columns known.
func (known orders) give(op *dataflow.Operator, o rowOrder) []*dataflow.Operator {
	var readers []*dataflow.Operator
	for i := range op.Outputs {
		mine := o
		if op.Outputs[i].Port != "" && !op.Desc.ManyOutputs {
			mine = rowOrder{lost: true}
		}
		if mine.kept {
			continue
		}
		s := streamOf{op, i}
		old, noted := known[s]
		if noted && (old.lost || !mine.lost && slices.Equal(old.columns, mine.columns)) {
			continue
		}
		if noted {
			mine = rowOrder{lost: true}
		}
		known[s] = mine
		for _, c := range op.Outputs[i].Consumers {
			readers = append(readers, c.Op)
		}
	}
	return readers
}
