package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"sluice/dataflow"
)

// textSizes bound the memory that a text input needs, all in bytes.
type textSizes struct {
	block int // how much is decoded at a time
	row   int // the largest row, with its line end; the next power of two must be below csvPosition
	raw   int // how much of a row that is too large is kept to be shown
}

var usualSizes = textSizes{block: 256 << 10, row: 16 << 20, raw: 64 << 10}

const (
	// textPad is how far a scanner may look beyond the end of a block.
	textPad = 16
	// maxEmptyReads is how often a reader may return nothing without an error.
	maxEmptyReads = 100
)

// textFormat is what differs between the formats that consist of rows of text.
type textFormat interface {
	// begin looks at the start of the input, of which data is known and, if eof, all there is. It returns
	// how many bytes to pass over before the first row, or ok = false if it needs to see more.
	begin(data []byte, eof bool) (n int, ok bool, err error)
	// head is what begin has found to stand before the first row, for an input that lacks it (Resume).
	head() []byte
	// rowsEnd returns where the last row that is complete in data ends; 0 if there is none. data begins
	// with a row.
	rowsEnd(data []byte) int
	// newRows makes what one goroutine decodes rows with.
	newRows() textRows
}

// textRows decodes blocks. One goroutine uses it.
type textRows interface {
	// decode turns the rows of b into chunks. The last row of b has its line end.
	decode(b *textBlock)
}

// textBlock is a run of whole rows and what has become of them.
type textBlock struct {
	buf          []byte // the rows are buf[:n]; textPad bytes more can be read
	n            int
	lines        int   // line feeds among them: at least as many as rows
	offset, line int64 // of the first row in the input
	end          int64 // offset behind the last row
	tooLong      bool  // the block is the start of one row that is too large
	chunks       []*textChunk
	used, given  int           // chunks that are filled, and that have been given out
	done         chan struct{} // receives a value when the block is decoded
}

// textDecoder is a Decoder for rows of text. One goroutine reads blocks and cuts them where a row ends,
// some others decode them, and the caller gets the chunks in order. Blocks go round: memory is bounded
// by their number, and nothing is allocated once each has reached its size.
type textDecoder struct {
	r      io.Reader
	schema *dataflow.Schema
	format textFormat
	live   bool
	sizes  textSizes

	free  chan *textBlock // to be filled
	work  chan *textBlock // to be decoded
	order chan *textBlock // all blocks, as they come in the input
	err   error           // why there are no more; set before order is closed

	stop    chan struct{}
	workers sync.WaitGroup
	reader  chan struct{} // closed when the reading goroutine has ended
	reading sync.Mutex    // held during Read

	cur  *textBlock // whose chunks are being given out
	next *textBlock // that is being decoded

	// What follows belongs to the reading goroutine.
	from, fromLine int64   // offset and line at which to begin; 0: with the first row
	resume         *Resume // how to begin there
	begun          bool
	rest           []byte // read, but not part of a block yet
	offset, line   int64  // of rest
	closed         bool   // the last row had no line end, and got one
	eof            bool
	whole          bool // when reading failed all that had been read was in blocks, or in rest

	head atomic.Pointer[[]byte] // what stood before the first row; nil until begun
}

func newTextDecoder(r io.Reader, format textFormat, o DecodeOptions, sizes textSizes) *textDecoder {
	workers := max(o.Workers, 1)
	n := workers + 3 // besides those being decoded: one being read, one waiting, one with the caller
	d := &textDecoder{
		r: r, schema: o.Schema, format: format, live: o.Live, sizes: sizes, line: 1,
		from: o.Offset, fromLine: o.Line, resume: o.Resume,
		free: make(chan *textBlock, n), work: make(chan *textBlock, n), order: make(chan *textBlock, n),
		stop: make(chan struct{}), reader: make(chan struct{}),
	}
	for range n {
		d.free <- &textBlock{done: make(chan struct{}, 1)}
	}
	for range workers {
		d.workers.Go(d.decodeBlocks)
	}
	go d.readBlocks()
	return d
}

// Next implements Decoder.
func (d *textDecoder) Next(ctx context.Context) (*Chunk, error) {
	for {
		if b := d.cur; b != nil {
			if b.given < b.used {
				b.given++
				return &b.chunks[b.given-1].Chunk, nil
			}
			d.cur = nil
			b.recycle(2 * d.sizes.block)
			d.free <- b
		}
		if d.next == nil {
			b, ok, err := receive(ctx, d.order)
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, d.err
			}
			d.next = b
		}
		if _, _, err := receive(ctx, d.next.done); err != nil {
			return nil, err
		}
		d.cur, d.next = d.next, nil
	}
}

// receive receives from c, unless it would have to wait after ctx is done.
func receive[T any](ctx context.Context, c <-chan T) (v T, ok bool, err error) {
	select {
	case v, ok = <-c:
		return v, ok, nil
	default:
	}
	select {
	case v, ok = <-c:
		return v, ok, nil
	case <-ctx.Done():
		return v, false, ctx.Err()
	}
}

// Close implements Decoder. If the input's Read has not returned yet, the goroutine that called it ends
// when it does; until then the input must not be read by anybody else.
func (d *textDecoder) Close() error {
	close(d.stop)
	d.workers.Wait()
	if d.reading.TryLock() {
		d.reading.Unlock()
		<-d.reader
	}
	return nil
}

// recycle makes the block ready to be filled again, and lets go of memory beyond keep bytes, which only a
// huge row needed.
func (b *textBlock) recycle(keep int) {
	b.n, b.lines, b.used, b.given, b.tooLong = 0, 0, 0, 0, false
	if cap(b.buf) > keep {
		b.buf, b.chunks = nil, nil
	}
}

// decodeBlocks is a decoding goroutine.
func (d *textDecoder) decodeBlocks() {
	rows := d.format.newRows()
	for {
		select {
		case <-d.stop:
			return
		case b, ok := <-d.work:
			if !ok {
				return
			}
			if b.tooLong {
				b.addTooLong(d.schema, d.sizes.row)
			} else {
				rows.decode(b)
			}
			b.setEnds()
			b.done <- struct{}{}
		}
	}
}

// readBlocks is the reading goroutine.
func (d *textDecoder) readBlocks() {
	defer close(d.reader)
	defer close(d.work)
	defer close(d.order)
	if d.from > 0 || d.resume != nil {
		if err := d.passOver(); err != nil {
			d.err = err
			return
		}
	}
	for {
		var b *textBlock
		select {
		case <-d.stop:
			return
		case b = <-d.free:
		}
		err := d.fill(b)
		if b.end = d.offset; d.closed && len(d.rest) == 0 {
			b.end--
		}
		if b.n > 0 {
			d.order <- b
			d.work <- b
		}
		if err != nil {
			d.err = err
			return
		}
	}
}

// fill puts whole rows into b. An error comes with the rows before it.
func (d *textDecoder) fill(b *textBlock) error {
	d.makeRoom(b, len(d.rest)+d.sizes.block/2)
	n := copy(b.buf, d.rest)
	d.rest = d.rest[:0]
	for seen := 0; ; {
		if d.eof && n > 0 && b.buf[n-1] != '\n' {
			b.buf[n] = '\n'
			n++
			d.closed = true
		}
		full := n >= len(b.buf)-textPad
		if d.live || full || d.eof {
			var err error
			if n, err = d.begin(b.buf, n); err != nil {
				return err
			}
			full = n >= len(b.buf)-textPad
		}
		if d.begun {
			end, ok := d.wholeRows(b.buf[:n], seen, full)
			seen = n
			if ok {
				d.cut(b, n, end)
				if d.eof && end == n {
					return io.EOF
				}
				return nil
			}
		}
		if full && n >= d.sizes.row {
			return d.skipRow(b, n)
		}
		if full {
			small := b.buf
			d.makeRoom(b, 2*n)
			copy(b.buf, small[:n])
		}
		m, err := d.read(b.buf[n : len(b.buf)-textPad])
		n += m
		if err == io.EOF {
			d.eof = true
		} else if err != nil {
			return d.broken(b, n, err)
		}
	}
}

// makeRoom gives b a buffer for size bytes, but for no more than the largest row.
func (d *textDecoder) makeRoom(b *textBlock, size int) {
	if size = min(size, d.sizes.row) + textPad; cap(b.buf) < size {
		b.buf = make([]byte, max(size, d.sizes.block+textPad))
	}
	b.buf = b.buf[:min(cap(b.buf), d.sizes.row+textPad)]
}

// wholeRows returns where the whole rows in data end, and whether there are any or this is the input's
// end. It looks for them if there is reason to; data[:seen] is known to have no row's end.
func (d *textDecoder) wholeRows(data []byte, seen int, full bool) (end int, ok bool) {
	switch {
	case d.eof && len(data) <= d.sizes.row:
		return len(data), true
	case full || d.eof || d.live && bytes.IndexByte(data[seen:], '\n') >= 0:
		end = d.format.rowsEnd(data[:min(len(data), d.sizes.row)])
	}
	return end, end > 0
}

// begin passes over what the format wants to see before the first row, if buf[:n] shows it, and returns
// how much is left.
func (d *textDecoder) begin(buf []byte, n int) (int, error) {
	if d.begun {
		return n, nil
	}
	skip, ok, err := d.format.begin(buf[:n], d.eof)
	if err != nil || !ok {
		return n, err
	}
	d.setBegun()
	d.offset += int64(skip)
	d.line += int64(bytes.Count(buf[:skip], newline))
	return copy(buf, buf[skip:n]), nil
}

// broken makes a block of the rows in b.buf[:n] that are whole, after which reading has failed.
func (d *textDecoder) broken(b *textBlock, n int, err error) error {
	n, e := d.begin(b.buf, n)
	if e != nil {
		return errors.Join(e, err)
	}
	end := 0
	if d.begun {
		end = d.format.rowsEnd(b.buf[:n])
	}
	d.cut(b, n, end)
	// A first row that may be the end of one that is not whole stays that.
	d.whole = d.begun || d.resume == nil || !d.resume.Torn
	return err
}

var newline = []byte{'\n'}

// cut makes a block of buf[:end], of which buf[:n] is filled, and keeps the rest for the next one.
func (d *textDecoder) cut(b *textBlock, n, end int) {
	b.n, b.offset, b.line = end, d.offset, d.line
	b.lines = bytes.Count(b.buf[:end], newline)
	d.rest = append(d.rest[:0], b.buf[end:n]...)
	d.offset += int64(end)
	d.line += int64(b.lines)
}

// skipRow passes over a row whose first n bytes are b.buf[:n], up to the next line end, and leaves its
// start in b.
func (d *textDecoder) skipRow(b *textBlock, n int) error {
	if !d.begun {
		return fmt.Errorf("the first line is longer than %d bytes", d.sizes.row)
	}
	b.n, b.offset, b.line, b.tooLong = d.sizes.raw, d.offset, d.line, true
	d.offset += int64(n)
	d.line += int64(bytes.Count(b.buf[:n], newline))
	if d.eof {
		return io.EOF
	}
	for {
		m, err := d.read(b.buf[d.sizes.raw : len(b.buf)-textPad])
		read := b.buf[d.sizes.raw : d.sizes.raw+m]
		if i := bytes.IndexByte(read, '\n'); i >= 0 {
			d.offset += int64(i) + 1
			d.line++
			d.rest = append(d.rest[:0], read[i+1:]...)
			d.eof = err == io.EOF
			if d.eof {
				err = nil
			}
			return err
		}
		d.offset += int64(m)
		if err != nil {
			return err
		}
	}
}

// read reads some bytes into p. At the end it returns io.EOF, with or after the last of them.
func (d *textDecoder) read(p []byte) (int, error) {
	d.reading.Lock()
	defer d.reading.Unlock()
	for range maxEmptyReads {
		select {
		case <-d.stop:
			return 0, errDecoderClosed
		default:
		}
		if n, err := d.r.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}
