package expr

import (
	"slices"
	"strings"

	"sluice/dataflow"
)

// FunctionDoc describes one function or aggregate for the reference.
type FunctionDoc struct {
	Name       string
	Signatures []string // such as "round(decimal, int) decimal"; square brackets mark what may be left out
	Doc        string
	Aggregate  bool
}

// Functions lists all functions, sorted by name, and then all aggregates.
func Functions() []FunctionDoc {
	docs := make([]FunctionDoc, len(functions))
	for i, f := range functions {
		docs[i] = FunctionDoc{f.name, f.signatures, f.doc, f.aggregate}
	}
	return docs
}

// function is one function that expressions can call.
type function struct {
	name       string
	signatures []string
	doc        string
	aggregate  bool
	fails      bool // a call may cause a row error
	// check types a call; the arguments are valid and not converted yet.
	check func(c *checker, n *call, f *function, args []*typed) *typed
	// One of these builds a call whose op is opCall.
	value func(b *builder, t *typed) evaluator
	test  func(b *builder, t *typed) test
}

// functions is sorted: functions by name, then aggregates by name.
var functions []*function

var functionIndex = map[string]*function{}

func init() {
	functions = slices.Concat(mathFunctions(), textFunctions(), timeFunctions(), choiceFunctions(), aggregateFunctions())
	slices.SortFunc(functions, func(a, b *function) int {
		if a.aggregate != b.aggregate {
			return truth(a.aggregate) - truth(b.aggregate)
		}
		return strings.Compare(a.name, b.name)
	})
	for _, f := range functions {
		functionIndex[f.name] = f
	}
}

func functionNamed(name string) *function { return functionIndex[name] }

func functionNames() []string {
	names := make([]string, len(functions))
	for i, f := range functions {
		names[i] = f.name
	}
	return names
}

// fits reports whether a value of type from may stand where to is wanted, without a CAST.
func fits(from, to dataflow.Type) bool {
	switch {
	case from.Kind == to.Kind || from.Kind == dataflow.Null:
		return true
	case to.Kind == dataflow.Float:
		return isNumber(from)
	}
	return to.Kind == dataflow.Decimal && from.Kind == dataflow.Int
}

// takes is the check of a function with fixed parameter types, of which at least min must be given.
func takes(min int, result dataflow.Type, params ...dataflow.Type) func(c *checker, n *call, f *function, args []*typed) *typed {
	return func(c *checker, n *call, f *function, args []*typed) *typed {
		if len(args) < min || len(args) > len(params) {
			return c.badCall(n, f, args)
		}
		for i, a := range args {
			if !fits(a.typ, params[i]) {
				return c.badCall(n, f, args)
			}
			args[i] = c.convert(a, params[i])
		}
		return f.strictCall(n, result, args)
	}
}

// strictCall makes a call that is NULL where one of its arguments is.
func (f *function) strictCall(n *call, result dataflow.Type, args []*typed) *typed {
	t := strict(n.span, opCall, result, args...)
	t.fn, t.fails = f, f.fails
	return settle(t)
}

// constantInt returns the value of an argument that must be a constant int.
func constantInt(a *typed) (int64, bool) {
	return a.val.i, a.isConstant() && a.typ.Kind == dataflow.Int && !a.val.null
}
