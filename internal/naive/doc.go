// Package naive evaluates expressions in the plainest way there is, one row and one node at a time. It is
// the reference that the compiled, columnar expressions of the engine are checked against:
//
//	x := naive.New("+", naive.Column("a", 0, naive.IntType), naive.Literal(naive.IntType, naive.Value{Int: 1}))
//	x.SQL()                               // a + 1
//	x.Type                                // int
//	x.Eval([]naive.Value{{Int: 41}})      // 42
//
// It is written from the description of the language alone and imports nothing of the engine. Decimals
// are big integers, text goes through package regexp, dates through package time. It is slow on purpose:
// every rule is spelled out where it applies.
//
// A tree is built by New, which gives each node its result type; it trusts its caller to put together
// only what the language allows. An error of Eval is a row error. Operands are evaluated from left to
// right, and those of AND, OR, IN, BETWEEN, CASE and coalesce only until the result is known.
//
// The functions now and hash are not covered: the one has no value of its own and the other no
// prescribed one.
package naive
