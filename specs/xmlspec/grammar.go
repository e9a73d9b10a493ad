package xmlspec

// elementRule says what an element of a spec may have.
type elementRule struct {
	name     string
	attrs    []attrRule
	children []string
	text     bool // it may have text of its own
}

// attrRule is one attribute of an element.
type attrRule struct {
	name     string
	required bool
	// isName says that the value names something: it may not be empty or have space around it.
	isName bool
}

// Names of elements: the root of a spec, and what an operator needs of its machine.
const (
	root      = "dataflow"
	resources = "resources"
)

// grammar has all elements of a spec.
var grammar = []elementRule{
	{name: root, attrs: []attrRule{{name: "name", isName: true}},
		children: []string{"type", "operator", "rewrite", "rules"}},
	{name: "type", attrs: []attrRule{{name: "name", required: true, isName: true}},
		children: []string{"column"}},
	{name: "column", attrs: []attrRule{{name: "name", required: true, isName: true}, {name: "type", required: true},
		{name: "nullable"}, {name: "eventtime"}}},
	{name: "operator", attrs: []attrRule{{name: "name", required: true, isName: true}, {name: "type", required: true, isName: true}},
		children: []string{"input", "output", "param", resources}},
	{name: "input", attrs: []attrRule{{name: "name", required: true, isName: true}}},
	{name: "output", attrs: []attrRule{{name: "name", required: true, isName: true}, {name: "type", isName: true}, {name: "port", isName: true}}},
	{name: "param", attrs: []attrRule{{name: "name", required: true, isName: true}, {name: "value"}}, text: true},
	{name: resources, attrs: []attrRule{{name: "cpus"}, {name: "mem"}, {name: "disk"}, {name: "gpus"}, {name: "ports"}, {name: "attributes"}}},
	{name: "rewrite", attrs: []attrRule{{name: "rule", required: true, isName: true}, {name: "operator", required: true, isName: true}},
		children: []string{"param"}},
	{name: "rules", attrs: []attrRule{{name: "href", required: true}}},
}

// rule returns the rule of the named element, or nil.
func rule(name string) *elementRule {
	for i := range grammar {
		if grammar[i].name == name {
			return &grammar[i]
		}
	}
	return nil
}

// parents are the elements in which the named one may stand.
func parents(name string) []string {
	var names []string
	for _, r := range grammar {
		for _, c := range r.children {
			if c == name {
				names = append(names, r.name)
			}
		}
	}
	return names
}

func elementNames() []string {
	names := make([]string, len(grammar))
	for i := range grammar {
		names[i] = grammar[i].name
	}
	return names
}
