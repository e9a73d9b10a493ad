// Package persist makes a source that cannot be read again, such as standard input, one that can: its rows
// are written to a log of their own before anybody gets them, and a process that goes on reads them back.
//
//	log, err := persist.OpenLog(dir)
//	ctx.Log = log
//	src := persist.New(ctx, reader) // positions of src are places in the log
//
// Every run of rows that the source gives becomes an entry of the log (operators.RowLog). A position names
// an entry and how many of its rows have been read. Behind the last entry the source itself goes on. So
// no row is lost that has been read from the input, also those of an epoch that has not been logged: they are in
// the log, and are cut into epochs again. What the operating system had read from a pipe on behalf of the
// process, and the process had not taken yet, is not ours and goes with the process.
//
// An entry holds how many rows were read, where the source stood behind them, and the rows of both outputs
// as Arrow IPC streams, with a checksum. Rows that were read and given to no output, since they are bad and skipped, count as read.
package persist
