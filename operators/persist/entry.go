package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// entry is a run of rows as the log has it.
type entry struct {
	read   int64 // rows, of which bad ones may be in neither batch
	inner  []byte
	main   *batch.Batch // nil: none
	errors *batch.Batch // likewise
}

func rowsOf(b *batch.Batch) int64 {
	if b == nil {
		return 0
	}
	return int64(b.Rows())
}

// encode gives the text form of rows behind which the source stands at position inner.
func encode(rows *operators.SourceRows, inner []byte) ([]byte, error) {
	dst := binary.AppendUvarint(nil, uint64(rows.Read))
	dst = appendBytes(dst, inner)
	for _, b := range []*batch.Batch{rows.Batch, rows.Errors} {
		text, err := encodeBatch(b)
		if err != nil {
			return nil, err
		}
		dst = appendBytes(dst, text)
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst, castagnoli)), nil
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func encodeBatch(b *batch.Batch) (text []byte, err error) {
	if rowsOf(b) == 0 {
		return nil, nil
	}
	defer recoverArrow(&err)
	var buf bytes.Buffer
	rec := batch.ToArrow(b, nil)
	w := ipc.NewWriter(&buf, ipc.WithSchema(rec.Schema()))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// recoverArrow turns a panic of the Arrow library into an error.
func recoverArrow(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("arrow: %v", p)
	}
}

var errEntry = errors.New("an entry of the log of the input's rows is damaged, or of another version")

func decode(src []byte, main *dataflow.Schema) (*entry, error) {
	// Arrow takes what it is given at its word, also lengths: damaged text must not get there.
	end := len(src) - crc32.Size
	if end < 0 || crc32.Checksum(src[:end], castagnoli) != binary.LittleEndian.Uint32(src[end:]) {
		return nil, errEntry
	}
	src = src[:end]
	read, n := binary.Uvarint(src)
	if n <= 0 || int64(read) < 0 {
		return nil, errEntry
	}
	src = src[n:]
	var parts [3][]byte
	for i := range parts {
		size, n := binary.Uvarint(src)
		if n <= 0 || size > uint64(len(src)-n) {
			return nil, errEntry
		}
		parts[i], src = src[n:n+int(size)], src[n+int(size):]
	}
	if len(src) > 0 {
		return nil, errEntry
	}
	e := &entry{read: int64(read), inner: bytes.Clone(parts[0])}
	var err error
	if e.main, err = decodeBatch(parts[1], main); err != nil {
		return nil, err
	}
	if e.errors, err = decodeBatch(parts[2], operators.ErrorsSchema); err != nil {
		return nil, err
	}
	if rowsOf(e.main)+rowsOf(e.errors) > e.read {
		return nil, errEntry
	}
	return e, nil
}

func decodeBatch(text []byte, s *dataflow.Schema) (b *batch.Batch, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if s == nil {
		return nil, errEntry
	}
	defer recoverArrow(&err)
	r, err := ipc.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	defer r.Release()
	if !r.Next() {
		return nil, errors.Join(errEntry, r.Err())
	}
	view := &batch.Batch{}
	if err := batch.FromArrow(r.RecordBatch(), s, view); err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	b = batch.New(s) // the record is gone when the reader is
	b.CopyFrom(view)
	return b, nil
}
