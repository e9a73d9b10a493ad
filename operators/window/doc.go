// Package window is the aggregate operator: groups, windows over event time or over rows, and
// aggregate functions.
//
//	<operator name="perOrigin" type="aggregate">
//	  <input name="flights"/>
//	  <param name="group-by" value="origin"/>
//	  <param name="window" value="tumbling(6h)"/>
//	  <param name="select">window_start, origin, count(*) AS flights, avg(delay) AS mean_delay</param>
//	  <param name="having">flights &gt;= 5</param>
//	  <param name="allowed-lateness" value="10m"/>
//	  <output name="stats"/>
//	  <output name="late"/>
//	</operator>
//
// # Windows
//
//	tumbling(SIZE)      [i*SIZE, (i+1)*SIZE) for each integer i
//	hopping(SIZE, HOP)  [i*HOP, i*HOP+SIZE); HOP is at most SIZE
//	session(GAP)        per group: from its first row to its last row plus GAP
//	rows(N)             per group: its rows 1 to N, N+1 to 2N, ...
//	rows(N, HOP)        per group: its rows i*HOP+1 to i*HOP+N; HOP is at most N
//	(none)              the whole stream
//
// Names may be in any case. SIZE, HOP and GAP are durations longer than 0, such as 250ms, 10s or 1h30m.
// The first three are windows of time: they need an input that has an event time, they are half-open
// and aligned to 1970-01-01T00:00:00Z, also before it, and the pseudo columns window_start, window_end
// and window_time (window_end less a microsecond) tell them apart. A window without rows gives no
// output row. A hop longer than the size would lose the rows between two windows; it is refused.
//
// Two rows of a group belong to the same session if the later one is less than GAP after the other; a
// row exactly GAP later begins a new session. A row that comes out of order may join two sessions.
//
// # Groups
//
// Rows for which all group-by expressions are equal are one group. NULL equals NULL, NaN equals NaN,
// and -0.0 equals 0.0, which is what comes out. Without group-by all rows are one group. Without a
// window either, the operator gives one row even if there is no input: count is 0, everything else NULL.
//
// # When rows come, and in which order
//
// A window of time comes at the end of the first epoch whose watermark has reached the window's end,
// that is, whose watermark is not below it. Rows come by window_end, then window_start, then the first
// appearance of their group in the window. A full window of rows comes with the row that fills it. At
// the end of the stream everything else comes: windows of time in the same order; windows of rows that
// are not full by first appearance of the group in the stream, then by their first row; and without a
// window the groups by first appearance. A mark that says that the input is idle closes no window.
//
// # Late rows
//
// Each row carries a watermark: how far event time had got at its source before it. A row is late for a
// window whose end is not above the row's own watermark. That makes lateness a property of the row: it
// depends neither on where epochs are cut nor on the path that the row took. (A row that carries a
// watermark below one that the operator has already reached, as after an idle input, counts as if it
// carried the latter.)
//
// A row that is late for a window is dropped for it, counted once for each such window, unless
// allowed-lateness L is given: up to L after its end, which is as long as the row's watermark is below
// window_end + L, a late row is added to the window, and the window's row for the group comes again,
// corrected. The first row of a window holds exactly the rows that were not late; the first correction
// one late row more, and so on, whatever the epochs. Corrections take their place among the windows in
// the order of watermarks: after the windows that end at or before the late row's watermark.
//
// The output named "late" takes rows that were dropped from all of their windows, as they were. A row
// that is in time for one of several overlapping windows is not among them.
//
// A session is closed to a row whose own watermark has reached the session's end (plus L). A row that
// finds no open session starts one, and it is late only if that session would itself be closed already:
// if its time plus GAP (plus L) is not above its watermark. Within the allowed lateness a row may extend
// a session that has come out, or join several: the session comes again, with its new start and end, when
// its new end is reached, or at once if it has been. Rows are taken into account in the order of their
// watermarks, so sessions are the same in any epochs and on any path.
//
// Watermarks of what comes out: a window's row carries window_end less a microsecond, a correction the
// late row's watermark, a full window of rows that of the row that filled it. Whatever comes at the end
// of the stream without a window of time carries the least watermark there is. So nothing that is
// selected with its window_time is late further down.
//
// # Aggregate functions
//
// count(*) counts rows, count(x) those in which x is not NULL. All others pass over NULL and are NULL if
// there is nothing else. FILTER (WHERE c) passes over rows for which c is not true; DISTINCT takes each
// value once.
//
//   - sum of ints and durations is exact: it may leave the range of 64 bits on its way, and is an error
//     only if the result is out of range. So is sum of decimals with 38 digits. Floats are added in stream
//     order within a slice (see below).
//   - avg of ints and floats is a float; of decimals a decimal and of durations a duration, both rounded half
//     away from zero.
//   - min and max take any type; strings and bytes are ordered by their bytes, false is below true, and NaN
//     is above all other floats.
//   - stddev_samp and var_samp are NULL for fewer than two values.
//   - first and last go by the order of rows in the stream, not by event time.
//
// # Bad rows
//
// A row for which a group-by expression, a FILTER or an argument fails, or whose event time is NULL, is a
// bad row, whether it is late or not. A group whose sum is out of range, or for which the select list or
// having fails, is a bad group: on-error=fail ends the run and shows the group, skip counts it, and
// dead-letter sends it to the output "errors".
//
// # How it works
//
// State is columnar. A group in a window (or a session, or a window of rows) is a slot: a small number
// that is an index into flat arrays, one or two for each aggregate call, and into the columns of keys.
// Slots that become free are used again. An index, a hash table of its own for each window, finds the
// slot of a key; it holds slots only and compares keys in the columns. A batch is first given slots, row
// by row, and then each aggregate goes over the batch in one loop. One group of count and sum with an int
// key takes 50 to 65 bytes.
//
// Time is cut where a window starts or ends; between two cuts lies a slice. A row is added to its slice
// only, however many windows overlap, and a window is merged from its slices when it comes. Rows that
// are late for one of the windows of their slice wait in a queue and are added after those windows have
// come. For sessions all rows wait: at the end of the epoch rows, ends and expiries are gone through in
// the order of time.
//
// # State
//
// The operator is an operators.Stateful and an operators.Freezer. Its state between two epochs is given as
// pieces that hold the keys of one key group each: their groups in all slices, their sessions or windows of
// rows, and their rows that wait. A key is of the key group to which a splitter sends its rows. The
// watermark that has been reached and the number of rows so far are in every piece and, for key groups
// without state, in one of operators.WholeState, as is everything of an operator without group-by. An
// operator to which nothing has happened has no piece.
//
// A restored operator gives what the other one would have given, row for row in the same order, floats to
// the last bit. For this a piece has the place of each group in the order of first appearance, the place of
// rows in the stream where that counts, and lists in the order in which they would be joined.
//
// Partitions may be given the pieces of others, divided or joined in any way by key group, in any order.
// They must be of one epoch: two watermarks are an error for windows of time, as is a key that is given
// twice. What comes out of each key is then the same as without partitions. Between the keys of one window
// the order is that of their places in the partitions that they were in, and of their key groups where
// these are equal; so it is not the order of first appearance in the stream, which no partition knows, but
// it is the same whenever these pieces are restored. Rows that come later are behind all that were there,
// as the number of rows of the joined operator is the largest of those joined.
//
// A piece begins with its format and the fingerprint: the group-by, window, allowed lateness and aggregates
// with their types, and the types of the input's columns if late rows of sessions are kept for an output. An
// operator with another fingerprint refuses it and says in what they differ. Neither having, as far as it
// has no aggregates of its own, nor the names of columns count. The rest is columnar, an array after the
// other, integers with as many bytes as their range needs; a checksum ends it. Whatever bytes a piece has,
// restoring it gives an error or a state that can go on, and takes memory in proportion to its length.
//
// The copy that Freeze makes is of flat arrays: with one million groups of count and sum it takes some 10 ms,
// with overlapping windows or sessions 35 ms. Rows that wait are not copied.
//
// Not covered: windows with early results, and windows aligned to time zones.
package window
