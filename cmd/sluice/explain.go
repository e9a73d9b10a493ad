package main

import (
	"fmt"
	"strings"

	"sluice/dataflow"
	"sluice/operators/catalog"
	"sluice/operators/expr"
)

type explainCommand struct {
	Spec      string   `arg:"" optional:"" help:"The spec, - for standard input."`
	Set       []string `help:"Set a parameter of an operator: OPERATOR.PARAMETER=VALUE." sep:"none" placeholder:"OP.PARAM=VALUE"`
	Format    string   `help:"Form of the graph: term, dot or json." enum:"term,dot,json" default:"term"`
	Operators bool     `help:"Print the reference of all operators instead."`
	Functions bool     `help:"Print the reference of all functions of expressions instead."`

	Steps    bool   `hidden:""`
	Rule     string `hidden:""`
	Operator string `hidden:""`
}

// Run implements the command.
func (c *explainCommand) Run(s streams) error {
	if c.Steps || c.Rule != "" || c.Operator != "" {
		return usageErrorf("the options --steps, --rule and --operator are not part of this version yet")
	}
	if c.Operators {
		_, err := s.out.Write(operatorReference(catalog.Descriptors()))
		return err
	}
	if c.Functions {
		_, err := s.out.Write(functionReference(expr.Functions()))
		return err
	}
	if c.Spec == "" {
		return usageErrorf("explain needs a spec, --operators or --functions")
	}
	g, diags, err := loadSpec(c.Spec, c.Set, s)
	if err != nil {
		return err
	}
	printDiagnostics(s.err, diags)
	if diags.HasErrors() {
		return &exitError{status: exitUsage}
	}
	switch c.Format {
	case "dot":
		_, err = fmt.Fprint(s.out, g.Dot())
	case "json":
		var text []byte
		if text, err = g.JSON(); err == nil {
			_, err = s.out.Write(text)
		}
	default:
		_, err = fmt.Fprintf(s.out, "%s\n%s", g.Term(dataflow.TermOptions{}), streamTypes(g))
	}
	return err
}

// streamTypes lists the streams with their types, one a line, in the order of the spec.
func streamTypes(g *dataflow.Graph) string {
	var b strings.Builder
	for _, op := range g.Operators {
		for _, out := range op.Outputs {
			fmt.Fprintf(&b, "%s %s\n", out.Stream, out.Schema)
		}
	}
	return b.String()
}
