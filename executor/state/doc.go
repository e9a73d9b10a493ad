/*
Package state keeps what a query needs to go on in another process: the epoch log of its sources, the
commits of its sinks and its checkpoints, in one directory. A process may be killed at any instant; what
had been acknowledged then is there afterwards, and nothing else than what was asked for.

	s, err := state.Open(dir, state.Options{})
	if err != nil {
		return err
	}
	defer s.Close()

	c, err := s.Checkpoint() // restore the operators from c, if there is one
	from := c.Epoch()
	for _, e := range s.Epochs("source") {
		// The entry at or below from: seek to e.Position. Those above it: cut the same epochs again.
	}
	epoch, witness := s.Sink("sink") // Recover the sink, and leave out its epochs up to this one

	err = s.AppendEpoch(state.Epoch{Source: "source", Epoch: 8, Prev: 7, Position: p}) // then send its rows
	err = s.CommitSink("sink", 8, witness)                                             // after they are visible

	w, err := s.BeginCheckpoint(8)
	op, err := w.Operator("late", fingerprint)
	err = late.Snapshot(op.Piece)
	err = op.Close()
	err = w.Complete(nil)
	err = s.Trim(8)

# What holds

  - Acknowledged is kept. An append, commit, checkpoint or SetSpec that returned nil is there after any
    number of killed processes. One that was under way may be there or not, but never in part.
  - An append that fails, as on a full disk, leaves no trace, and the Store goes on as soon as there is
    room. Only where the disk fails to sync is the log given up: all later appends fail.
  - The epochs of a source ascend, and the commits of a sink do not descend. A call out of order is an AssertionError.
  - What is kept of the log is in memory too, about 150 bytes an epoch, until Trim forgets it.
  - A Store has its directory for itself (ErrInUse), by a lock that ends with its process.
  - When the machine dies, the promises hold with FsyncAlways. With FsyncGrouped the log may end up to an
    interval earlier, which keeps rows exact as long as sinks sync their rows before they commit: epochs
    and commits are in one log, so no commit outlives its epochs. With FsyncNever there is no promise, but
    a log that ends before a checkpoint is found out. A disk that wrote later pages of what was not synced
    and no earlier ones leaves a log that Open refuses.
  - A directory that was damaged, or made by somebody who means harm, gives errors and no panic. Files are read
    within the bounds below, and no length in them is believed beyond the size of the file.

# Directory

	lock                     locked while in use; holds the process id
	spec                     text of the query (sealed)
	log/0000000000000001.log segments of the log, numbered without gaps
	checkpoints/EPOCH/       one complete checkpoint, EPOCH with 19 digits
	    manifest             (sealed)
	    0000.state ...       state of one operator each
	tmp-*                    in any folder: being written or removed; the next Open removes it

Open refuses a directory with other files that is no state directory yet. Files that others put into one
later are left alone.

# Records

The log and the state files consist of records. All numbers of fixed size are little-endian.

	length of the payload, 4 bytes | CRC32C (Castagnoli) of these 4 bytes and the payload, 4 | payload

A payload has at least one byte, so zeros are no record; in the log it has at most 16 MiB. The log has one entry
a record. Names are a length (uvarint) and 1 to 4096 bytes; other numbers are varints as in encoding/binary; the
last field takes the rest.

	1 | flags, 1 byte | source | epoch | prev | clock | watermark | latest | rows | position
	2 | sink | epoch | witness
	3 | epoch

The first is an Epoch; its flags are 1 Begun, 2 Idle, 4 End, 8 Stop. The second is a commit, the third a Trim.

# Segments

	"sluicelg" | version, 4 bytes | number of the segment, 8 | number of its first record, 8 |
	length of its base, 8 | CRC32C of these 36 bytes, 4

and then records. A record is appended with one call of the operating system. A segment that would exceed
Options.SegmentSize (4 MiB) is followed by another. Where most of the log is of no use any more, Trim writes a
segment whose first records, its base, say all that is kept; it is published by a rename, and earlier segments are
removed. Records are counted from the beginning of the log on: each segment must begin where the one before it ends.

The torn-tail rule: at the end of the last segment, behind its base, Open cuts off a damaged record if
there is no valid record anywhere behind it (Store.Cut). This is what a killed process leaves. So is a last
segment whose header is not whole. All other damage is ErrDamaged, with segment and offset; so is a
record of a kind that is not known.

# Checkpoints

A checkpoint is written to a temporary folder and published by one rename. Its manifest is JSON: the epoch, the number
of records that the log had, the caller's bytes, and for each operator its name, fingerprint, number of
pieces, and length and CRC32C of its file. A state file is "sluicest", a version of 4 bytes, and a
record for each piece, whose payload is the key group (a varint, -1 for operators.WholeState) and the
piece, at most 1 GiB. Checkpoint reads all files of the last checkpoint once; a damaged one is an error and never
passed over, since an earlier one need not agree with the log.

# Sealed files

	sluice-KIND VERSION LENGTH CRC32C
	text

with the length in bytes and the checksum in eight hexadecimal digits. The text has at most 64 MiB.

All versions are 1. A file of another version is refused.
*/
package state
