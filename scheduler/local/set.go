package local

import (
	"fmt"
	"slices"

	"sluice/dataflow"
	"sluice/metaquery"
)

// Settings checks a meta-query of a user, and gives its tuples for the operators of the physical graph: an
// operator of the spec that has replicas stands for all of them.
func Settings(g *dataflow.Graph, operator, param, value string) ([]metaquery.Tuple, error) {
	ops := g.Named(operator)
	if len(ops) == 0 {
		return nil, unknownOperator(g, operator)
	}
	var tuples []metaquery.Tuple
	for _, op := range ops {
		if err := checkSetting(op, param, value); err != nil {
			return nil, fmt.Errorf("operator %q: %w", op.Name, err)
		}
		tuples = append(tuples, metaquery.Tuple{Query: g.Name, Operator: op.Name, Param: param, Value: value})
	}
	return tuples, nil
}

func unknownOperator(g *dataflow.Graph, operator string) error {
	var names []string
	for _, op := range g.Operators {
		names = append(names, op.Name)
	}
	return fmt.Errorf("unknown operator %q%s", operator, suggestion(operator, names))
}

func suggestion(name string, known []string) string {
	if near := dataflow.Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func checkSetting(op *dataflow.Operator, param, value string) error {
	if op.Desc.Param(param) == nil {
		var names []string
		for _, d := range op.Desc.Params {
			names = append(names, d.Name)
		}
		return fmt.Errorf("unknown parameter %q%s", param, suggestion(param, names))
	}
	if slices.Contains([]string{dataflow.NetWriter, dataflow.NetReader}, op.Type) {
		return fmt.Errorf("parameter %q is set by the scheduler alone", param)
	}
	if err := op.CheckSetting(param, value); err != nil {
		return fmt.Errorf("parameter %q: %w", param, err)
	}
	return nil
}
