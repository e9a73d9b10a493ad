// Package route holds the operators that rewrite rules put between others: they choose which way rows
// take and change none of them.
//
//	splitter          one stream into several, by key or by epoch
//	multicast         each row to all outputs
//	partition-filter  the rows of a range of key groups
//	merge             several streams into one, epoch by epoch and input by input
//	stream-selector   of copies of one stream the row that comes first
//	failover          to the output that is active
//
// A splitter with a key sends all rows of a key to one output. A key is hashed by the function hash,
// which is the same in every process and release, into one of dataflow.KeyGroups key groups, and of k
// outputs number i gets the groups from i*KeyGroups/k up to (i+1)*KeyGroups/k. A row
// whose key cannot be computed goes with group 0, to be a bad row of the operator behind. Without a key whole
// epochs take turns: a merge behind it, which reads each epoch input by input, then gives the rows in
// the order in which they came.
package route
