// Package executor runs the operators of a dataflow.
//
// A Task is a connected group of operators that run fused on one goroutine: they call each other, batch
// by batch, with no queue between. Its core is a step function: rows and end-of-epoch marks of its
// inputs go in by Rows and Mark, and what follows happens before the call returns. There is no
// goroutine, clock or socket inside, so a test drives it as it likes.
//
// An operator with several inputs reads each epoch input by input in declared order. What comes too
// early waits, so its input does not depend on how the rows of different inputs interleave.
//
// Rows that wait, or go to another task of the process, are copied unless somebody lends them (loan).
//
// Run is the shell around one task that runs a whole query in this process: it takes rows from the
// sources, cuts them into epochs, computes watermarks and feeds the task.
package executor
