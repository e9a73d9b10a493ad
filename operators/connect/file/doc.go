// Package file reads and writes files and standard input and output in the formats csv, ndjson, arrow
// and parquet.
package file
