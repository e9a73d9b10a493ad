// Package channel carries a stream of rows from one task to another, so that the consumer works on each row
// and each mark once and in order, whatever becomes of connections and of tasks on either side.
//
// Both ends are pure: they are driven by calls, and know no goroutine, clock or socket. Only the producer's
// end writes to disk, if it has to. The messages between them go over a package transport that may lose what
// is under way.
//
//	s := channel.NewSender(channel.SenderConfig{Channel: "clean.0", Generation: 1, Schema: schema, Store: store})
//	s.Connected()
//	s.Rows(7, 6, clock, rows)                 // epoch 7 comes after epoch 6
//	s.Mark(operators.Mark{Epoch: 7, Prev: 6}) // and is over
//	for msg, ok := s.Next(); ok; msg, ok = s.Next() {
//		if conn.Send(msg) != nil {
//			s.Unsend() // the transport is full; try again later
//			break
//		}
//	}
//
//	r := channel.NewReceiver(channel.ReceiverConfig{Channel: "clean.0", Schema: schema, From: channel.After(6)})
//	r.Receive(1, msg)
//	for d, ok := r.Deliver(); ok; d, ok = r.Deliver() {
//		work(d)
//		r.Release(d)
//	}
//	for msg, ok := r.Next(); ok; msg, ok = r.Next() {
//		back.Send(msg) // what comes back goes to Sender.Message
//	}
//
// After any call on an end there may be something new for its Next. Tick is to be called about every 50 ms.
//
// # Positions
//
// A stream is a sequence of epochs, an epoch a sequence of rows and then a mark. A Position is a place between
// two of these. A message with rows (a frame) and a message with a mark name their epoch, the epoch before it,
// since numbers skip, and the index in the epoch of their first row; a mark names how many rows the epoch has.
// So the receiver, which knows its own position, can tell for each piece whether it is the next one; has been
// received before, wholly or in part, and is dropped or cut; or comes behind something that is missing. How the
// rows of an epoch are cut into frames has no meaning: a producer that was restarted may cut them elsewhere.
//
// A mark carries a checksum of its epoch's rows, their values and their order. The receiver compares it with what
// it has received, perhaps partly from an instance of the producer that is no more; ErrDiffers says that the
// producer does not repeat what it did. It is delivered too (Delivery.Sum), so that the copies of a hot standby can
// be compared.
//
// The mark that has End (END) belongs to the channel rather than to an epoch: it is kept for ever, and answers any
// request, even one from beyond it, as a consumer asks that was restored when all was over.
//
// # The conversation
//
//	hello  ->            the producer has a new connection; repeated every 200 ms until answered
//	       <- resume     begins a session: send what comes behind this position; with credit
//	tail   ->            how far the session is: at its beginning, every 200 ms while the consumer has not
//	                     acknowledged all of it, and every second otherwise
//	rows, mark ->
//	       <- credit     how much may be sent by now, and what has been received: when a quarter of the
//	                     window has been released, when pressure goes on or off, and in answer to a tail
//	       <- resume     the receiver has seen a gap: a new session from its position
//	trimmed ->           instead of rows, again and again: what is asked for is gone
//
// A session is a number that the receiver chooses: above all that it has used, and above the one in the message
// that makes it begin a session, so that a receiver that was restarted does not repeat a number. It begins one for
// each hello that it has not answered, for each gap, for the first message of a producer it has not heard before, and
// for a message of a session above its own (which an earlier instance of the consumer began). What arrives of
// sessions below its own is left over, and dropped. The sender follows resume messages with rising sessions and
// ignores others; so it does not matter how often one arrives. While nothing of a session has arrived the receiver
// repeats its resume every 200 ms, and asks for nothing else. It also waits that long before it asks again when nothing
// of a session could be taken, lest two ends that do not understand each other keep busy.
//
// A sender that is asked for what it has not produced yet, as it was restarted and works on the epochs again, holds the
// request and sends when it comes to that position. One that is asked for what it has trimmed, or for what comes before
// its Start, says so. The consumer's owner then restores it from the complete checkpoint that the message names, or a
// later one, or, if it has had the same rows from a copy, skips to there and asks again. What counts is whether something was really forgotten: numbers skip, so the last epoch before Start may have a
// lower number, and who is behind that one lacks nothing. Which one it was is known when the first epoch begins.
//
// Credit is counted in bytes of whole messages with rows or marks, from the beginning of the session on. A message names
// how much of the session came before it, so lost messages and repeated ones need no account: what the sender may have
// sent is, for the receiver, what it has received, the window, less what has been delivered and not been released. A
// message that is larger than what is left may go if at least three quarters of the window are free, which they are
// when the consumer has nothing to work on.
//
// # Generations
//
// Each message of a producer names the generation of its task. The receiver drops what comes from one below the fence,
// and each higher one that it hears raises the fence. Fence says which one there is: then higher ones are dropped too,
// since a producer is launched when its consumers have been told, so that a made-up generation does not make
// the receiver deaf to the right one. An answer names the generation that it is for.
//
// # Messages
//
// All numbers are little-endian. Each message begins with a header of 104 bytes; frames have a body besides. The
// memory of a message is aligned to 8 bytes, and so is each buffer in the body.
//
//	 0  4  'S' 'l' 'c' 1       1 is the version
//	 4  1  kind                1 hello, 2 rows, 3 mark, 4 tail, 5 trimmed, 6 resume, 7 credit
//	 5  1  flags               1 idle, 2 end, 4 stop, 8 row watermarks, 16 pressure
//	 6  2  columns             rows: of the stream
//	 8  8  generation          of the producer
//	16  8  session             hello: the highest one that the producer knows
//	24  8  epoch               rows, mark; tail, resume, credit: of the position; trimmed: the checkpoint
//	32  8  previous epoch      rows, mark
//	40  8  row                 rows: of the first one; mark: how many; tail, resume, credit: of the position;
//	                           hello: the number of the connection
//	48  8  clock               rows, mark: of the epoch
//	56  8  watermark           rows: of all rows; mark
//	64  8  offset              rows, mark: bytes of the session before this message; tail: bytes so far;
//	                           resume, credit: bytes that may be sent in the session
//	72  8  number              mark: checksum of the epoch's rows; resume, credit: the window in bytes
//	80  4  rows                rows: how many
//	84  4  body                its length
//	88  4  checksum            CRC32C of the body
//	92  4  schema              rows: CRC32C of the columns' types as text, each with a zero byte behind it
//	96  4  zero
//	100 4  checksum            CRC32C of the header before
//
// The flag "end" is set in a mark that is END, in a tail if END has been sent in the session, and in resume and credit if
// END has been received.
//
// A body is a table and then buffers, as Arrow lays them out. The table has 8 bytes for each column: 4 with 1 if there is
// a validity bitmap (there is if a row is NULL), else 0; 4 with the length of the text. Then come, for each column, each
// filled up with zeros to a multiple of 8 bytes:
//
//	validity  if the table says so: a bit for each row, set if it is not NULL
//	bool      a bit for each row
//	int, timestamp, duration, float  8 bytes for each row
//	decimal   16 bytes for each row
//	string, bytes  the offsets, 4 bytes for each row and one more, from 0 on; then the text
//
// and at last, with the flag "row watermarks", 8 bytes for each row. NULLs are zeros and have no text; bits beyond the rows
// are zeros. The vectors of a delivered batch point into the message: a frame is read without copying.
//
// The layout is the package's own and not that of Arrow's IPC format, which has the same buffers: the schema is
// known to both ends, so that its metadata says nothing new, and building and reading it costs allocations
// for each frame (the benchmarks compare them).
//
// A frame has at most 1 MiB unless a single row is larger, and 64 MiB in any case. Small batches of an epoch go together in
// one frame; the mark makes the rest go.
//
// Messages may be damaged or made up. Their headers and bodies have checksums, and all that a reader of a batch relies on is
// checked: lengths, offsets in order, no NULL where none may be. Nothing is allocated by what a message says. Whether text
// is UTF-8 is not looked at: it was checked where it came into the query, a checksum covers it since, and the worst that a
// producer that means to deceive gains is text that is not UTF-8, where it could have sent any other text.
//
// # Retention
//
// A Sender keeps all messages with rows and marks until Trim says that a checkpoint is complete. The senders of a process
// share a Retention: while they are above its budget of memory, each that retains more writes its oldest messages to a file
// of 16 MiB that has no name any more, and is closed when none of its messages is needed. They are read back, and their
// checksums compared, if a consumer asks for them. What the disk does not take stays in memory, and Pressure says so.
//
// # What is not covered
//
// Order and loss of other kinds are the transport's; authenticity too: a checksum keeps out damage, not deceit. The
// package does not compress.
package channel
