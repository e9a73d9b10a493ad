package file

import (
	"context"
	"io"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// Decoder turns one input into batches of a schema. One goroutine calls it.
type Decoder interface {
	// Next returns the next chunk, which is valid until the following call. It waits for input until
	// ctx is done and then returns ctx's error; it can be called again after that, and nothing is lost.
	// A chunk that is ready is returned even if ctx is done already. At the end it returns io.EOF; any
	// other error is final.
	Next(ctx context.Context) (*Chunk, error)
	// Close releases what the decoder holds and stops its goroutines. It does not close the input.
	Close() error
}

// Chunk is a run of decoded rows, at most batch.TargetRows of them.
type Chunk struct {
	Batch *batch.Batch // without a selection; all of its columns have the schema's types
	// Bad lists the rows that could not be decoded, in order.
	Bad []BadRow
	// Offset is the byte offset of the chunk's first row in the input after decompression, for formats
	// that have one, and Line its line (from 1) there. A decoder that starts at Offset gives the same rows.
	// For formats that have none, Line is the number of the first row, from 1.
	Offset, Line int64
	// End is the offset behind the chunk's last row, for formats that have Offset.
	End int64
	// detach, if not nil, gives the batch away with all its memory, and takes another one, or nil, for what is
	// decoded next. Batch then has a length only.
	detach func(spare *batch.Batch) *batch.Batch
}

// BadRow is a row that could not be decoded.
type BadRow struct {
	Before int    // the row stood before this row of the chunk's batch
	Line   int64  // line of the input on which it starts, from 1; or its row number, where there are no lines
	Raw    []byte // the row as it was, without its line end
	Reason string // what is wrong with it: `column "delay": "abc" is not an int`
}

// DecodeOptions say how an input is to be read.
type DecodeOptions struct {
	Name            string // of the input, for messages: a path or "-"
	Schema          *dataflow.Schema
	Header          bool   // CSV: the first row names the columns
	Delimiter       byte   // CSV
	Null            string // text that means NULL besides an empty field; "" for none
	TimestampFormat string // strftime; "" for the usual forms
	Workers         int    // goroutines that decode at once; at least 1
	// Live says that the input may pause: rows are to be passed on as soon as they are complete.
	Live bool

	// Where to begin, if not with the first row. Text begins at a chunk's Offset, and Line is that chunk's.
	// Of the other formats the decoder may pass over as much of the first Skip rows as it can without
	// decoding them; the first chunk's Line tells how much.
	Offset, Line, Skip int64
	// Resume says how text is to be begun that is what is left of an input; nil if the input is whole. Its first byte
	// then counts as the one at Offset.
	Resume *Resume
}

// Resume is what is known of an input whose beginning another process has read.
type Resume struct {
	// Head is what stood before the first row; nil if that is not known.
	Head []byte
	// Inside says that the input begins with a row of the input that has Head. Otherwise it may as well be another input, which
	// begins with a head of its own.
	Inside bool
	// Torn says that the input may begin in the middle of a row. What is not known to be a whole row is passed over.
	Torn bool
}

// EncodeOptions say how an output is to be written.
type EncodeOptions struct {
	Schema    *dataflow.Schema
	Header    bool // CSV
	Delimiter byte // CSV
	Null      string
}

// Encoder writes batches in one format. One goroutine calls it.
type Encoder interface {
	// Encode writes the selected rows of b. Rows may be held back until Flush.
	Encode(b *batch.Batch) error
	// Flush passes everything encoded so far to the underlying writer, as far as the format can.
	Flush() error
	// Finish writes what the format wants at the end (a CSV header if there were no rows, a footer). It
	// does not close the underlying writer.
	Finish() error
}

// encoderFunc makes an Encoder that writes to w.
type encoderFunc func(w io.Writer, o EncodeOptions) (Encoder, error)
