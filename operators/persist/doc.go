// Package persist makes an input that cannot be read again, such as standard input, one that can: its bytes are
// written to a log before anybody gets them, and a process that goes on reads them there.
//
//	log, err := persist.OpenLog(dir, false)
//	in := persist.NewInput(log, openStandardInput)
//	n, err := in.Read(p) // of the log, and behind its end of standard input
//
// Positions of whoever reads are offsets in the log. So no byte is lost that the process has taken: what it
// had read ahead and not made rows of is in the log, also the start of a row. What the process has taken with a call
// of read and not yet written to the log when it is killed is lost; such a call takes MaxRead bytes at most.
//
// # Parts
//
// The input of a later process is usually the same pipe, which goes on where it was. If it is another one, whoever wrote to
// the first one has ended too, perhaps in the middle of a row, and what comes now begins anew, perhaps with a header.
// So Read stops there with ErrPart. Whoever reads then says with Next where the row began that will not be
// completed: from there on the log has what the new input brings. Read stops at the same place whenever the
// log is read again.
//
// # Files
//
// A log is a folder. Its files, input-OFFSET-ID, have the bytes of the stream from this offset on, up to where the
// next file begins, and ID (16 hexadecimal digits) stands for the input that they came from: a part begins where it changes.
// A file is a run of records: length and checksum (four bytes each, little endian; CRC32C of the record's offset in the
// stream and its bytes), bytes. A record at the end of the last file that is not whole was being written when the
// process died, and is cut off. Only whole files are trimmed.
//
// The log survives the death of processes. For that of the machine Sync is to be called before a position is kept.
package persist
