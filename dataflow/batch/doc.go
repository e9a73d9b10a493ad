// Package batch is the columnar memory of rows: typed vectors with the layout of Apache Arrow buffers,
// gathered into batches. There is no other form of a row: the same memory is computed on, sent, stored
// and handed to Arrow.
package batch
