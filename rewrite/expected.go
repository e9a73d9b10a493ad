package rewrite

import (
	"slices"
	"strings"
)

// productions are the names that participle has for parts of the grammar, and what the manual calls
// them.
var productions = map[string]string{
	"TermSyntax": "a term", "ValueSyntax": "a value", "NameSyntax": "a name", "BindingSyntax": "name := term",
	"ConstraintsSyntax": "a constraint", "OrSyntax": "a constraint", "AndSyntax": "a constraint", "UnarySyntax": "a constraint",
	"TestSyntax": "a constraint", "CallSyntax": "a name", "TriggerSyntax": "a trigger", "HeadSyntax": "a term", "StageSyntax": "a term",
	"SuffixSyntax": "a suffix", "SettingSyntax": "name = value", "SettingsSyntax": "parameters", "ParamSyntax": "a parameter",
	"RangeSyntax": "a range", "RuleSyntax": "a rule", "<ident>": "a name", "<number>": "a number", "<string>": "a text", "<prime>": "'",
}

// expectation lists what may come next, given participle's grammar of all that may follow: the things
// at its start, up to and with the first one that must be there.
func expectation(grammar string) string {
	first := firstOf(grammar, 0)
	for i, f := range first {
		if name, ok := productions[f]; ok {
			first[i] = name
		}
	}
	slices.Sort(first)
	return strings.Join(slices.Compact(first), " or ")
}

// firstOf are the things that the alternatives of a grammar may start with.
func firstOf(grammar string, depth int) []string {
	var first []string
	done := false // with this alternative
	for _, unit := range units(grammar) {
		if unit == "|" {
			done = false
			continue
		}
		bare := strings.TrimRight(unit, "?*+!")
		if done || strings.HasPrefix(bare, "(?") { // what must or must not follow comes again behind it
			continue
		}
		if strings.HasPrefix(bare, "(") && depth < 10 {
			first = append(first, firstOf(strings.TrimSuffix(bare[1:], ")"), depth+1)...)
		} else {
			first = append(first, bare)
		}
		done = !strings.HasSuffix(unit, "?") && !strings.HasSuffix(unit, "*")
	}
	return first
}

// units splits a grammar at the spaces outside brackets and quotes.
func units(grammar string) []string {
	var list []string
	depth, start, quoted := 0, 0, false
	for i, r := range grammar {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ' ' && depth == 0:
			if i > start {
				list = append(list, grammar[start:i])
			}
			start = i + 1
		}
	}
	if start < len(grammar) {
		list = append(list, grammar[start:])
	}
	return list
}
