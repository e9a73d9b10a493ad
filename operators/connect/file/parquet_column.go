package file

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	pq "github.com/apache/arrow-go/v18/parquet/file"

	"sluice/dataflow/batch"
)

// parquetColumn reads one column of a Parquet file from front to back. One goroutine at a time uses it.
type parquetColumn struct {
	name     string
	leaf     int
	typ      arrow.DataType
	nullable bool
	file     *pq.Reader
	groups   []int // the file's row groups that have rows
	reader   pq.ColumnChunkReader

	// Where the next chunk is.
	group int
	row   int64
	next  int64 // its number; guarded by the decoder's lock, as busy
	busy  bool

	// Scratch memory.
	levels []int16
	texts  []parquet.ByteArray
	fixed  []parquet.FixedLenByteArray
	bools  []bool
	int96s []parquet.Int96
}

// parquetCell is one chunk of one column: the memory that it is decoded into and what came of it.
type parquetCell struct {
	schema *arrow.Schema // of the one column
	conv   *batch.ArrowConverter
	out    batch.Batch // one column
	bad    []batch.RowError
	err    error

	valid    batch.Bitmap
	bits     batch.Bitmap
	int32s   []int32
	int64s   []int64
	float32s []float32
	float64s []float64
	words    []uint64
	halves   []uint16
	offsets  []int32
	data     []byte
}

func newParquetColumn(file *pq.Reader, fields []parquetField, name string) *parquetColumn {
	at := slices.IndexFunc(fields, func(f parquetField) bool { return f.name == name })
	f := &fields[at]
	return &parquetColumn{name: name, leaf: f.leaf, typ: f.typ, nullable: f.desc.MaxDefinitionLevel() > 0, file: file}
}

// decode reads the next n rows into the cell.
func (c *parquetColumn) decode(cell *parquetCell, n int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	if c.reader == nil && c.typ.ID() != arrow.NULL {
		if c.reader, err = c.file.RowGroup(c.groups[c.group]).Column(c.leaf); err != nil {
			return err
		}
	}
	cell.bad = cell.bad[:0]
	values, valid, err := c.read(cell, n)
	if err != nil {
		return err
	}
	buffers, nulls := []*memory.Buffer{nil, values}, 0
	if valid != nil {
		buffers[0], nulls = memory.NewBufferBytes(asBytes(valid)), n-valid.Count(n)
	}
	switch c.typ.ID() {
	case arrow.STRING, arrow.BINARY:
		buffers = append(buffers, memory.NewBufferBytes(cell.data))
	case arrow.NULL:
		buffers = []*memory.Buffer{nil}
	}
	data := array.NewData(c.typ, n, buffers, nil, nulls, 0)
	rec := array.NewRecordBatch(cell.schema, []arrow.Array{array.MakeFromData(data)}, int64(n))
	bad, err := cell.conv.Convert(rec, &cell.out)
	cell.bad = append(cell.bad, bad...)
	return err
}

// endGroup lets go of the current row group.
func (c *parquetColumn) endGroup() error {
	if c.reader == nil {
		return nil
	}
	r := c.reader
	c.reader = nil
	return r.Close()
}

// read gives the next n rows as an Arrow buffer and a bitmap, which is nil if none is NULL.
func (c *parquetColumn) read(cell *parquetCell, n int) (*memory.Buffer, batch.Bitmap, error) {
	switch r := c.reader.(type) {
	case nil:
		return nil, nil, nil
	case *pq.BooleanColumnChunkReader:
		c.bools = resize(c.bools, n)
		valid, err := readFixed(c, cell, n, c.bools, r.ReadBatch)
		cell.bits = batch.GrowBitmap(cell.bits, n)
		packBools(cell.bits, c.bools)
		return memory.NewBufferBytes(asBytes(cell.bits)), valid, err
	case *pq.Int32ColumnChunkReader:
		cell.int32s = resize(cell.int32s, n)
		valid, err := readFixed(c, cell, n, cell.int32s, r.ReadBatch)
		return memory.NewBufferBytes(asBytes(cell.int32s)), valid, err
	case *pq.Int64ColumnChunkReader:
		cell.int64s = resize(cell.int64s, n)
		valid, err := readFixed(c, cell, n, cell.int64s, r.ReadBatch)
		return memory.NewBufferBytes(asBytes(cell.int64s)), valid, err
	case *pq.Float32ColumnChunkReader:
		cell.float32s = resize(cell.float32s, n)
		valid, err := readFixed(c, cell, n, cell.float32s, r.ReadBatch)
		return memory.NewBufferBytes(asBytes(cell.float32s)), valid, err
	case *pq.Float64ColumnChunkReader:
		cell.float64s = resize(cell.float64s, n)
		valid, err := readFixed(c, cell, n, cell.float64s, r.ReadBatch)
		return memory.NewBufferBytes(asBytes(cell.float64s)), valid, err
	case *pq.Int96ColumnChunkReader:
		c.int96s = resize(c.int96s, n)
		valid, err := readFixed(c, cell, n, c.int96s, r.ReadBatch)
		c.fromInt96(cell, valid)
		return memory.NewBufferBytes(asBytes(cell.int64s)), valid, err
	case *pq.ByteArrayColumnChunkReader:
		c.texts = resize(c.texts, n)
		return readText(c, cell, n, c.texts, r.ReadBatchInPage)
	case *pq.FixedLenByteArrayColumnChunkReader:
		c.fixed = resize(c.fixed, n)
		return readText(c, cell, n, c.fixed, r.ReadBatchInPage)
	}
	return nil, nil, fmt.Errorf("unknown physical type %s", c.reader.Type())
}

var errShortColumn = errors.New("it ends before its row group does")

// readFunc is ReadBatch or ReadBatchInPage of a typed column reader.
type readFunc[T any] func(n int64, values []T, defLevels, repLevels []int16) (rows int64, read int, err error)

// readFixed reads n rows into values, and the bitmap of those that are not NULL; nil if all are not.
func readFixed[T any](c *parquetColumn, cell *parquetCell, n int, values []T, read readFunc[T]) (batch.Bitmap, error) {
	levels := c.levelsFor(n)
	rows, got := 0, 0
	for rows < n {
		var defs []int16
		if levels != nil {
			defs = levels[rows:]
		}
		r, g, err := read(int64(n-rows), values[got:], defs, nil)
		if err != nil {
			return nil, err
		}
		if r == 0 {
			return nil, c.short()
		}
		rows += int(r)
		got += g
	}
	if got == n {
		return nil, nil
	}
	cell.valid = batch.GrowBitmap(cell.valid, n)
	if count := levelBits(cell.valid, levels); count != got {
		return nil, fmt.Errorf("%d values where the levels tell of %d", got, count)
	}
	spread(values, got, cell.valid)
	return cell.valid, nil
}

func (c *parquetColumn) levelsFor(n int) []int16 {
	if !c.nullable {
		return nil
	}
	c.levels = resize(c.levels, n)
	return c.levels
}

func (c *parquetColumn) short() error {
	if err := c.reader.Err(); err != nil {
		return err
	}
	return errShortColumn
}

// levelBits sets a bit for each level that says that there is a value, and counts them.
func levelBits(bits batch.Bitmap, levels []int16) int {
	clear(bits)
	for i, l := range levels {
		bits[uint(i)/64] |= uint64(l&1) << (uint(i) % 64)
	}
	return bits.Count(len(levels))
}

// spread moves the first got values, which stand without gaps, to the rows that are valid.
func spread[T any](values []T, got int, valid batch.Bitmap) {
	for i := len(values) - 1; i >= 0 && got <= i; i-- {
		if valid.Get(i) {
			got--
			values[i] = values[got]
		}
	}
}

func packBools(bits batch.Bitmap, bools []bool) {
	clear(bits)
	for i, b := range bools {
		if b {
			bits.Set(i)
		}
	}
}

// resize gives s the length n; contents are undefined.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
