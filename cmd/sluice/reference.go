package main

import (
	"bytes"
	"fmt"
	"strings"

	"sluice/dataflow"
	"sluice/operators/expr"
)

// operatorReference is the reference of the operators in Markdown; docs/operators.md is made from it.
func operatorReference(ds []*dataflow.Descriptor) []byte {
	var b bytes.Buffer
	b.WriteString("# Operators\n\nWritten by `sluice explain --operators`.\n")
	added := false
	for _, d := range ds {
		if d.Added && !added {
			added = true
			b.WriteString("\n# Operators that rewrite rules add\n\nA spec has no need to name them.\n")
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\nInputs: %s. Outputs: %s.\n", d.Name, d.Doc, inputRange(d), outputList(d))
		if len(d.Params) == 0 {
			b.WriteString("\nIt has no parameters.\n")
			continue
		}
		b.WriteString("\n| parameter | value | default | meaning |\n|---|---|---|---|\n")
		for i := range d.Params {
			p := &d.Params[i]
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, valueRange(p), defaultText(p), strings.ReplaceAll(p.Doc, "|", `\|`))
		}
	}
	return b.Bytes()
}

func inputRange(d *dataflow.Descriptor) string {
	switch {
	case d.MaxInputs < 0:
		return fmt.Sprintf("%d or more", d.MinInputs)
	case d.MinInputs == d.MaxInputs && d.MaxInputs == 0:
		return "none"
	case d.MinInputs == d.MaxInputs:
		return fmt.Sprint(d.MinInputs)
	}
	return fmt.Sprintf("%d to %d", d.MinInputs, d.MaxInputs)
}

func outputList(d *dataflow.Descriptor) string {
	var names []string
	if d.Output {
		names = append(names, "one")
	}
	for _, p := range d.Ports {
		names = append(names, fmt.Sprintf("`%s` (%s)", p.Name, strings.TrimSuffix(p.Doc, ".")))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func valueRange(p *dataflow.ParamDesc) string {
	text := p.Type.String()
	if p.Type == dataflow.EnumParam {
		text = strings.Join(p.Values, ", ")
	}
	if p.Settable {
		text += "; settable"
	}
	return text
}

func defaultText(p *dataflow.ParamDesc) string {
	switch {
	case p.Required:
		return "required"
	case p.Default == "":
		return ""
	}
	return "`" + p.Default + "`"
}

// functionReference is the reference of the functions of expressions; docs/functions.md is made from it.
func functionReference(fs []expr.FunctionDoc) []byte {
	var b bytes.Buffer
	b.WriteString("# Functions\n\nWritten by `sluice explain --functions`. The language around them is described in [expressions](expressions.md).\n")
	for _, aggregate := range []bool{false, true} {
		if aggregate {
			b.WriteString("\n## Aggregates\n\nEach may be followed by `FILTER (WHERE ...)`.\n")
		}
		b.WriteString("\n| function | meaning |\n|---|---|\n")
		for _, f := range fs {
			if f.Aggregate != aggregate {
				continue
			}
			forms := make([]string, len(f.Signatures))
			for i, s := range f.Signatures {
				forms[i] = "`" + strings.ReplaceAll(s, "|", `\|`) + "`"
			}
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(forms, "<br>"), strings.ReplaceAll(f.Doc, "|", `\|`))
		}
	}
	return b.Bytes()
}
