package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	pq "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// parquetInput is what a Parquet file is read from: *os.File, *bytes.Reader.
type parquetInput interface {
	io.ReaderAt
	io.Seeker
}

// parquetDepth is how many chunks of so many columns may be decoded but not yet used: fewer if rows are
// wide.
func parquetDepth(cols int) int64 {
	const memory, perValue = 32 << 20, 16
	return int64(min(max(memory/(perValue*batch.TargetRows*cols), 3), 8))
}

// parquetDecoder reads a Parquet file: of each row group only the columns that the schema names. Rows
// are numbered from 1 over the whole file.
//
// A chunk's columns are decoded independently into the slots of a ring. With several workers, each takes
// the column that is furthest behind, decodes its next chunk, and so on; the ring bounds how far ahead
// they get, so memory depends on pages, not on row groups.
type parquetDecoder struct {
	groups []rowGroup
	chunks int64 // in the whole file
	cols   []*parquetColumn
	slots  []*parquetSlot
	rows   rowFilter
	bad    []batch.RowError

	next  int64 // chunk that Next gives
	group int   // its row group
	row   int64 // its first row in the row group
	line  int64 // its first row in the file

	mu       sync.Mutex
	work     sync.Cond // released or closed has changed, or a column has become free
	workers  sync.WaitGroup
	released int64 // chunks whose slots may be used again
	closed   bool
}

// rowGroup is how a row group is cut into chunks.
type rowGroup struct {
	rows int64
	step int64 // rows of each chunk but the last
}

// parquetSlot is a chunk that is being decoded.
type parquetSlot struct {
	out   batch.Batch
	cells []parquetCell
	done  int           // columns decoded; guarded by mu
	ready chan struct{} // gets a value when all columns are decoded
}

func newParquetDecoder(r parquetInput, o DecodeOptions) (_ Decoder, err error) {
	defer recoverParquet(&err)
	file, err := openParquet(r)
	if err != nil {
		return nil, err
	}
	fields := parquetFields(file.MetaData())
	if err := checkSelected(fields, o.Schema); err != nil {
		return nil, err
	}
	full := arrowFields(fields, file.MetaData())
	if _, err := batch.NewArrowConverter(full, o.Schema); err != nil {
		return nil, err
	}
	d := &parquetDecoder{line: 1, rows: rowFilter{schema: o.Schema}}
	d.work.L = &d.mu
	for i := range o.Schema.Columns {
		d.cols = append(d.cols, newParquetColumn(file, fields, o.Schema.Columns[i].Name))
	}
	if err := d.plan(file.MetaData(), o.Skip); err != nil {
		return nil, err
	}
	depth := int64(1)
	if o.Workers > 1 && len(d.cols) > 0 {
		depth = min(parquetDepth(len(d.cols)), max(d.chunks, 2))
	}
	for range depth {
		s, err := newParquetSlot(d.cols, full, o.Schema)
		if err != nil {
			return nil, err
		}
		d.slots = append(d.slots, s)
	}
	if depth > 1 {
		for range o.Workers {
			d.workers.Go(d.decode)
		}
	}
	return d, nil
}

// InferParquet gives a type for the rows of a Parquet file. If some columns have a type that has no
// place in a spec, the error names them and the schema, unless nil, has the others.
func InferParquet(r parquetInput) (s *dataflow.Schema, err error) {
	defer recoverParquet(&err)
	file, err := openParquet(r)
	if err != nil {
		return nil, err
	}
	fields := parquetFields(file.MetaData())
	var errs []error
	for i := range fields {
		if fields[i].err != nil {
			errs = append(errs, fields[i].err)
		}
	}
	if len(errs) == len(fields) {
		return nil, errors.Join(errs...)
	}
	s, err = batch.SchemaFromArrow(arrowFields(fields, file.MetaData()))
	return s, errors.Join(append(errs, err)...)
}

func recoverParquet(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged Parquet file: %v", p)
	}
}

// keepOpen hides that an input can be closed, for the library would close it.
type keepOpen struct{ parquetInput }

func openParquet(r parquetInput) (*pq.Reader, error) {
	props := parquet.NewReaderProperties(&pagePool{})
	props.BufferedStreamEnabled = true // pages one by one, not whole row groups
	props.BufferSize = 64 << 10
	file, err := pq.NewParquetReader(keepOpen{r}, pq.WithReadProps(props))
	if err != nil {
		return nil, fmt.Errorf("damaged Parquet file: %w", err)
	}
	return file, nil
}

// checkSelected reports the columns of the schema that the file has but that cannot be read.
func checkSelected(fields []parquetField, s *dataflow.Schema) error {
	var errs []error
	for i := range fields {
		if fields[i].err != nil && s.Index(fields[i].name) >= 0 {
			errs = append(errs, fields[i].err)
		}
	}
	return errors.Join(errs...)
}

// parquetChunkBytes is what a chunk of one column should have at most.
const parquetChunkBytes = 4 << 20

// plan cuts the row groups into chunks: of TargetRows rows, or of fewer where rows are large. It leaves
// out those that are among the first skip rows.
func (d *parquetDecoder) plan(meta *metadata.FileMetaData, skip int64) error {
	for i, rg := range meta.RowGroups {
		rows := rg.GetNumRows()
		if rows < 0 || rows > 1<<48 {
			return fmt.Errorf("damaged Parquet file: row group %d has %d rows", i, rows)
		}
		if len(d.groups) == 0 && d.line-1+rows <= skip {
			d.line += rows
			continue
		}
		step := int64(batch.TargetRows)
		for _, c := range d.cols {
			if c.leaf >= len(rg.Columns) || rg.Columns[c.leaf].MetaData == nil {
				return fmt.Errorf("damaged Parquet file: row group %d lacks column %q", i, c.name)
			}
			size := rg.Columns[c.leaf].MetaData.GetTotalUncompressedSize()
			if perRow := size / max(rows, 1); perRow > 0 {
				step = min(step, parquetChunkBytes/perRow)
			}
		}
		step = max(step/64*64, 64)
		if rows > 0 {
			d.groups = append(d.groups, rowGroup{rows: rows, step: step})
			for _, c := range d.cols {
				c.groups = append(c.groups, i)
			}
		}
		d.chunks += (rows + step - 1) / step
	}
	return nil
}

func newParquetSlot(cols []*parquetColumn, full *arrow.Schema, s *dataflow.Schema) (*parquetSlot, error) {
	slot := &parquetSlot{cells: make([]parquetCell, len(cols)), ready: make(chan struct{}, 1)}
	slot.out = batch.Batch{Schema: s, Cols: make([]batch.Vector, len(cols)), Watermark: batch.MinWatermark}
	for i, c := range cols {
		cell := &slot.cells[i]
		cell.schema = arrow.NewSchema([]arrow.Field{full.Field(full.FieldIndices(c.name)[0])}, nil)
		conv, err := batch.NewArrowConverter(cell.schema, &dataflow.Schema{Columns: s.Columns[i : i+1]})
		if err != nil {
			return nil, err
		}
		cell.conv = conv
	}
	return slot, nil
}

// rowsOf is how many rows the chunk has that begins at row of a row group.
func (g *rowGroup) rowsOf(row int64) int { return int(min(g.step, g.rows-row)) }

// advance moves a position to the chunk after it.
func (d *parquetDecoder) advance(group *int, row *int64) {
	*row += d.groups[*group].step
	if *row >= d.groups[*group].rows {
		*group, *row = *group+1, 0
	}
}

func (d *parquetDecoder) Next(ctx context.Context) (*Chunk, error) {
	if d.next == d.chunks {
		return nil, io.EOF
	}
	slot := d.slots[d.next%int64(len(d.slots))]
	if len(d.slots) == 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range d.cols {
			d.decodeCell(d.cols[i], slot, i)
		}
	} else if err := d.await(ctx, slot); err != nil {
		return nil, err
	}
	n := d.groups[d.group].rowsOf(d.row)
	d.bad = d.bad[:0]
	for i := range slot.cells {
		cell := &slot.cells[i]
		if cell.err != nil {
			return nil, cell.err
		}
		slot.out.Cols[i] = cell.out.Cols[0]
		for _, e := range cell.bad {
			e.Col = i
			d.bad = append(d.bad, e)
		}
	}
	slot.out.Len = n
	line := d.line
	d.next++
	d.line += int64(n)
	d.advance(&d.group, &d.row)
	return d.rows.chunk(&slot.out, d.bad, line), nil
}

// await waits for the slot of the chunk that is due, having given back the one before it.
func (d *parquetDecoder) await(ctx context.Context, slot *parquetSlot) error {
	d.mu.Lock()
	if d.released < d.next {
		d.released = d.next
		d.work.Broadcast()
	}
	d.mu.Unlock()
	select {
	case <-slot.ready:
		return nil
	default:
	}
	select {
	case <-slot.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decode is what a worker does: cell after cell, until all are done or the decoder is closed.
func (d *parquetDecoder) decode() {
	for {
		col := d.pick()
		if col < 0 {
			return
		}
		c := d.cols[col]
		slot := d.slots[c.next%int64(len(d.slots))]
		d.decodeCell(c, slot, col)
		d.finish(c, slot, col)
	}
}

// pick waits for a column that may be decoded further, and takes it; -1 if there will be none.
func (d *parquetDecoder) pick() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		best, left := -1, false
		for i, c := range d.cols {
			if c.next == d.chunks {
				continue
			}
			left = true
			if !c.busy && c.next < d.released+int64(len(d.slots)) && (best < 0 || c.next < d.cols[best].next) {
				best = i
			}
		}
		if !left || d.closed {
			return -1
		}
		if best >= 0 {
			d.cols[best].busy = true
			return best
		}
		d.work.Wait()
	}
}

func (d *parquetDecoder) finish(c *parquetColumn, slot *parquetSlot, col int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.busy = false
	c.next++
	if slot.cells[col].err != nil {
		c.next = d.chunks
	}
	slot.done++
	if slot.done == len(d.cols) {
		slot.done = 0
		slot.ready <- struct{}{}
	}
	d.work.Broadcast()
}

// decodeCell decodes the next chunk of a column.
func (d *parquetDecoder) decodeCell(c *parquetColumn, slot *parquetSlot, col int) {
	cell := &slot.cells[col]
	cell.err = c.decode(cell, d.groups[c.group].rowsOf(c.row))
	if cell.err != nil {
		cell.err = fmt.Errorf("damaged Parquet file: column %q: %w", c.name, cell.err)
		return
	}
	group := c.group
	d.advance(&c.group, &c.row)
	if c.group != group {
		cell.err = c.endGroup()
	}
}

// Close stops the workers.
func (d *parquetDecoder) Close() error {
	d.mu.Lock()
	d.closed = true
	d.work.Broadcast()
	d.mu.Unlock()
	d.workers.Wait()
	var errs []error
	for _, c := range d.cols {
		errs = append(errs, c.endGroup())
	}
	return errors.Join(errs...)
}
