// Package file reads and writes files and standard input and output in the formats csv, ndjson, arrow
// and parquet.
//
// A query that keeps its state can end anywhere and go on in another process. Its readers go on from
// positions (position.go says what those hold, and what may happen to files meanwhile), and its writers
// make rows visible epoch by epoch (commit.go says how, for each kind of output).
package file
