package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"sluice/dataflow"
	"sluice/rewrite"
	"sluice/scheduler/api"
)

type rulesCommand struct {
	Name  string `arg:"" optional:"" help:"The rule to be shown whole."`
	Check string `help:"Check a file of rules instead." placeholder:"FILE"`
	serviceOptions
}

// Run implements the command.
func (c *rulesCommand) Run(s streams) error {
	if c.Scheduler != "" && c.Check == "" {
		return c.ofService(s)
	}
	rules := rewrite.Builtin()
	if c.Check != "" {
		set, diags, err := readRules(c.Check)
		if err != nil {
			return usageErrorf("%v", err)
		}
		if diags.HasErrors() {
			printDiagnostics(s.err, diags)
			return &exitError{status: exitUsage}
		}
		printDiagnostics(s.err, append(diags, warnOfNames(rules, set)...))
		if c.Name == "" {
			return nil
		}
		rules = set
	}
	if c.Name == "" {
		var list strings.Builder
		for _, r := range rules.Rules() {
			fmt.Fprintf(&list, "%s\n%s\n\n", ruleHead(r), indent(r.Doc))
		}
		return printResult(s, list.String())
	}
	r := rules.Rule(c.Name)
	if r == nil {
		d := dataflow.Diagnostic{Message: fmt.Sprintf("unknown rule %q", c.Name), Suggestion: dataflow.Nearest(c.Name, rules.Names())}
		return usageErrorf("%s", d)
	}
	return printResult(s, comment(r.Doc)+"\n"+r.Source+"\n")
}

// ofService shows the rules that a scheduler knows.
func (c *rulesCommand) ofService(s streams) error {
	if c.Name != "" {
		var r api.Rule
		if err := c.call(http.MethodGet, "/rules/"+url.PathEscape(c.Name), nil, &r, s); err != nil {
			return err
		}
		return printResult(s, comment(r.Doc)+"\n"+r.Source+"\n")
	}
	var list api.RuleList
	if err := c.call(http.MethodGet, "/rules", nil, &list, s); err != nil {
		return err
	}
	var text strings.Builder
	for _, r := range list.Rules {
		fmt.Fprintf(&text, "%s\n%s\n\n", r.Name, indent(r.Doc))
	}
	return printResult(s, text.String())
}

// comment is a text as a comment of the rule language.
func comment(doc string) string {
	var text strings.Builder
	for line := range strings.Lines(doc) {
		text.WriteString(strings.TrimRight("# "+line, " "))
	}
	return text.String()
}

func printResult(s streams, text string) error {
	_, err := io.WriteString(s.out, text)
	return err
}

// warnOfNames warns of rules that are right but have the name of a built-in one, so that no spec can load them.
func warnOfNames(builtin, set *rewrite.RuleSet) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	for _, r := range set.Rules() {
		if builtin.Rule(r.Name) != nil {
			diags = append(diags, dataflow.Diagnostic{Pos: r.Pos, Severity: dataflow.Warning,
				Message: fmt.Sprintf("rule %q has the name of a built-in rule; a spec can load it under another name only", r.Name)})
		}
	}
	return diags
}

// ruleHead is a rule's name with its parameters.
func ruleHead(r *rewrite.Rule) string {
	var params []string
	for _, p := range r.Params {
		if p.Required {
			params = append(params, p.Name)
		} else {
			params = append(params, p.Name+" = "+p.Default)
		}
	}
	if len(params) == 0 {
		return r.Name
	}
	return r.Name + "(" + strings.Join(params, ", ") + ")"
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			b.WriteString("    ")
		}
		b.WriteString(line)
	}
	return strings.TrimRight(b.String(), "\n")
}
