package expr

// aggregateFunctions are only known by name here; CompileAggregate types their calls.
func aggregateFunctions() []*function {
	aggregate := func(name, doc string, signatures ...string) *function {
		return &function{name: name, signatures: signatures, doc: doc, aggregate: true}
	}
	return []*function{
		aggregate("count", "The number of rows; of rows in which the argument is not NULL; of its distinct values. Never NULL.",
			"count(*) int", "count([DISTINCT] any) int"),
		aggregate("sum", "The sum. A sum of ints that does not fit an int is an error.",
			"sum([DISTINCT] int) int", "sum([DISTINCT] float) float", "sum([DISTINCT] decimal(p,s)) decimal(38,s)", "sum([DISTINCT] duration) duration"),
		aggregate("avg", "The mean.",
			"avg([DISTINCT] int) float", "avg([DISTINCT] float) float", "avg([DISTINCT] decimal(p,s)) decimal(38, max(s, 6))", "avg([DISTINCT] duration) duration"),
		aggregate("min", "The least value.", "min([DISTINCT] any) any"),
		aggregate("max", "The greatest value.", "max([DISTINCT] any) any"),
		aggregate("stddev_samp", "The standard deviation of a sample; NULL for fewer than two values.", "stddev_samp(float) float"),
		aggregate("var_samp", "The variance of a sample; NULL for fewer than two values.", "var_samp(float) float"),
		aggregate("first", "The value of the first row in which it is not NULL, in the order of the stream.", "first(any) any"),
		aggregate("last", "The value of the last row in which it is not NULL, in the order of the stream.", "last(any) any"),
	}
}
