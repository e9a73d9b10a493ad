package expr

import "sluice/dataflow"

// AggregatePlan is a compiled aggregation: what an aggregate operator has to do with each row and with
// each group. Input programs run over the operator's input batches; output programs run over batches
// of the intermediate schema Inter, which has one row per emitted group:
//
//	one column for each of Keys, then one for each of Calls, then window_start, window_end and
//	window_time (timestamps; absent without a time window)
//
// and, because HAVING may name the aliases of the select list, HAVING is compiled with the aliases
// replaced by what they stand for.
type AggregatePlan struct {
	Keys  []*Program // the GROUP BY expressions, over the input
	Calls []AggregateCall
	Inter *dataflow.Schema
	// Output makes the operator's output columns out of Inter, in the order of the select list.
	Output []*Program
	Having *Program         // over Inter; nil if there is none
	Schema *dataflow.Schema // of the output; its event time is window_time, if that is selected as it is
}

// AggregateFunc names an aggregate function.
type AggregateFunc uint8

// The aggregate functions.
const (
	CountStar AggregateFunc = iota // count(*)
	Count                          // count(x): rows in which x is not NULL
	Sum
	Avg
	Min
	Max
	StddevSamp
	VarSamp
	First // of the rows in which x is not NULL, in stream order
	Last
)

// AggregateCall is one distinct aggregate call of a select list or HAVING.
type AggregateCall struct {
	Func     AggregateFunc
	Arg      *Program      // over the input; nil for CountStar. For a decimal Sum of ints it may give the ints
	Distinct bool          // only with Count, Sum, Avg, Min and Max (where it changes nothing)
	Filter   *Program      // over the input, of type bool; nil if there is none
	Type     dataflow.Type // of the result
	Text     string        // as it is written, for messages
}
