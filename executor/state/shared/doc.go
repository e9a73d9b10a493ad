/*
Package shared keeps what a query that runs on several processes needs after any of them has ended: the
epoch logs of its sources, the commits of its sinks, the snapshots of its operators, the decisions about
its changes, and the record of its coordinator. Store keeps it in a directory that all processes see,
Memory in memory, for simulations.

	c, err := shared.Open(dir, shared.Options{Coordinator: true}) // one process
	err = c.Claim(term)
	record, version, err := c.Load()
	version, err = c.Save(next, version) // ErrSuperseded: another coordinator has taken over

	s, err := shared.Open(dir, shared.Options{}) // each of the others
	log, epochs, err := s.OpenSource("readings", gen) // seals what lower generations have written
	err = log.Append(state.Epoch{Source: "readings", Epoch: 8, Prev: 7, Position: p}) // then send its rows
	ref, err := s.WriteSnapshot("aggregate/0", gen, 5, 9, fingerprint, aggregate.Snapshot)
	committed, err := s.Decide(attempt, true)

	err = c.Trim(9, refs) // once the checkpoint of epoch 9 is complete

# What holds

  - Acknowledged is kept. What returned nil is there for all processes, however many are killed. What was
    under way may be there or not, but never in part. An error other than state.ErrSealed, ErrSuperseded and
    state.AssertionError is of the moment: nothing has happened, and the call may be repeated. Only where the
    disk fails to sync is a log given up: all later appends fail until it is opened again. Its Failed says so even if
    nothing is appended any more.
  - Sealing. To open a log is to seal what was opened before, of lower generations and of the same one. The
    entries that OpenSource returns, and the commit of OpenSink, are all that was acknowledged to those, and what they
    append later is seen by nobody for ever: their Append and Commit give state.ErrSealed from then on. A
    generation that opens a log after a higher one gets state.ErrSealed at once. An append that met
    with the sealing gives state.ErrSealed, and its entry may count or not.
  - The epochs of a source, and the commits of a sink, ascend over all generations.
  - Trim of a log keeps the last entry at or below the epoch. Trim of the Store keeps all snapshots that count for a
    later epoch, and those that are named.
  - A decision, and a version of the record, is the first one that was stored; all others learn of it.
  - When the machine dies, all this holds with state.FsyncAlways. With state.FsyncGrouped each log may end up to an
    interval earlier, by itself. Its Synced tells up to which epoch it does not (state.Syncing): whoever lets nothing out
    that follows from later epochs loses and doubles no row. Snapshots, decisions and the record are on the disk when their
    calls return. With state.FsyncNever there is no promise.
  - Files that were damaged, or made by somebody who means harm, give errors and no panic. They are read within the bounds
    below, and no length in them is believed beyond the size of the file.

All processes must see the directory in the same way at the same time, as those of one machine do, or those on
one cluster file system; it must have hard links, exclusive creation and locks. A network file system whose clients keep
attributes of files for some time does not do: there a zombie may be told too late.

# Directory

	shared                    marks the directory (sealed); there once all else is
	lock                      locked by the coordinator; holds its process id
	spec                      text of the query (sealed)
	record/VERSION            versions of the coordinator's record (sealed); the highest counts
	decisions/ATTEMPT         commit or cancel (sealed); those of the last 1,000 attempts
	snapshots/KEY.LO.HI.GEN.N one snapshot; the name with the folder is its ref
	sources/NAME/             the log of one source
	    GEN.N.open            the N-th opening of generation GEN is not sealed
	    GEN.N.log             what counts for it
	    GEN.N.K.rows          rows that it has written
	sinks/NAME/               the log of one sink, with the same files but rows
	tmp/                      files that are being written

Numbers in names have 19 digits. NAME and KEY are escaped: ASCII letters, digits, - and _ are themselves, another
byte is % and two hexadecimal digits; what is longer than 150 bytes then is cut there, with ~ and 16 digits of the SHA-256 of
the name behind it.

A file is written to tmp, locked, synced unless the mode is state.FsyncNever, and then appears under its name whole, by a link
where it must be the first of that name, otherwise by a rename. Files in tmp that nobody has locked are of killed
processes; the coordinator's Open and Trim remove them. Open refuses a directory of the single-process form (package
state), which refuses one of these, and one with other files that is neither.

# Logs

A log file is a header and records, as package state has them (length, CRC32C, payload).

	"sluicegl" | version, 4 bytes | generation, 8 | opening, 8 | length of the base, 8 | CRC32C of these 36 bytes, 4

The base are records that say all that counted when the file appeared. Behind it one record is appended with one call of the
operating system. The payloads are those of package state (1 an epoch, 2 a commit, 3 a Trim) and

	4 | generation | opening | K | from | to | payload of an epoch

for an epoch with rows, which are at the bytes from to to of a file of rows; the numbers are varints. The log of a source
has the kinds 1, 3 and 4, that of a sink 2. At the end of a file, behind its base, a damaged record with no valid record
anywhere behind it does not count: the torn tail of a killed process. All other damage is state.ErrDamaged.

An opening (GEN, N) takes place in these steps, N being one more than that of any file of GEN:

 1. Create GEN.N.open, exclusively.
 2. If there is a higher opening, it has been sealed. Otherwise remove the .open files of all lower ones.
 3. Read the highest lower log file.
 4. Publish GEN.N.log, whose base is what was read.
 5. If GEN.N.open is gone, it has been sealed.
 6. Remove the log files of lower openings, and rows that no entry names.

An append writes the record, and then looks for GEN.N.open: without it, it gives state.ErrSealed. Whoever seals removes
that file before he reads. So either the append was over before, and is read, or it finds itself sealed. What a
zombie writes after step 3 is in a file that nobody reads any more; no cut and no list of lengths is needed. If a process ends
between two steps, the log files say what they did, since the lower one goes only when the higher one is there.

A log that has more than Options.SegmentSize (4 MiB), most of it of no use, is written anew by Trim or Commit and replaces
its file. It has at most 1 GiB, half of it base. Positions, witnesses and rows have at most 8 MiB.

# Rows

Of a source that cannot be read again the rows can be kept (state.RowLog): "sluicerw", a version of 4 bytes, and records
whose payload is the epoch, a varint, and rows. They are brought to the disk before the entry of their epoch is written, unless
the mode is state.FsyncNever. Rows without an entry do not count. A file is followed by another at Options.SegmentSize, but
not within an epoch, and is removed when no entry that is kept names it.

# Snapshots

"sluicesn", a version of 4 bytes, and records, the first with a payload of at most 16 MiB:

	1 | key | generation | lo | hi | fingerprint
	2 | key group (-1 for operators.WholeState) | piece, at most 1 GiB
	3 | number of pieces

There is one 1 and one 3, and nothing behind it. A file that says something else than its name is state.ErrDamaged.

# Record

Version V + 1 is created exclusively by whoever knows version V, under a term in its first line; the rest is the
record. Claim makes a version with the same record and a higher term. Save makes one only if the current version is the one that
its caller names and has the term that he has claimed. So a coordinator that another has replaced can save no more. The last
three versions stay, and what appears below the highest does not count.

# Memory

A Memory does the same calls in the same way, one at a time. A Faults callback lets a call fail, or ends the process amid it (Torn)
or right after it (Crash). Memory.Crash ends a process between two calls and, when the machine goes with it,
cuts the logs that it has written as far as they are not synced.

All versions are 1. A file of another version is refused. Package storetest has the tests that both forms pass.
*/
package shared
