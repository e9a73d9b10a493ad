// Package meaning holds the tests that a dataflow means the same however it is run: with its operators
// rewritten by any rule, its rows cut into any batches and epochs, and its operators divided into tasks.
//
// They draw specs, with real operators, and rows; run each spec as it stands and in many other forms; and
// compare what each writer gets. Sources and writers are in memory, all else is what sluice run does.
//
// What is the same, and in which order:
//
//   - other batches: all rows, in the same order
//   - other tasks: likewise
//   - other epochs: likewise, but behind a union, which joins its inputs epoch by epoch, only the rows; and
//     nothing if an operator behind a union depends on the order of its rows
//   - a rewritten graph in the same epochs: likewise all rows in the same order; but behind an aggregate that
//     was divided into parts, only the rows of one key have their order
//
// Sums and averages of floats whose parts may have been added in another order are compared to 1e-9 of
// their size, everything else exactly. The place in a dead letter, which counts the rows of one operator,
// is another one where that operator has a part of the rows.
package meaning
