package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Bounds of what the head of a message may say. The Arrow library makes lists as long as a head tells it
// to, so a damaged head would take all memory; arrowFrames looks at every head before the library does.
const (
	maxArrowHead   = 16 << 20 // bytes
	maxArrowFields = 64 << 10 // fields of a schema, nested ones too
	maxArrowDepth  = 64       // of nested fields
)

// arrowFrames passes Arrow IPC messages on, up to the end of the stream, as long as their heads are in
// order.
type arrowFrames struct {
	r    io.Reader
	most int64  // bytes that a body may have
	head []byte // of the current message, as far as it has not been passed on
	body int64  // bytes of the current message's body that have not
	err  error  // to be given when these are done
}

func (f *arrowFrames) Read(p []byte) (int, error) {
	if len(f.head) == 0 && f.body == 0 {
		if f.err == nil {
			f.err = f.next()
		}
		if len(f.head) == 0 && f.err != nil {
			return 0, f.err
		}
	}
	if len(f.head) > 0 {
		n := copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	n, err := f.r.Read(p[:min(int64(len(p)), f.body)])
	f.body -= int64(n)
	if err == io.EOF && f.body > 0 {
		err = io.ErrUnexpectedEOF
	}
	if f.body == 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// next reads the head of the next message. The end of the stream is a head of no length, then io.EOF.
func (f *arrowFrames) next() error {
	prefix := make([]byte, 4, 8)
	if _, err := io.ReadFull(f.r, prefix); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(prefix)
	if size == math.MaxUint32 { // older streams do not have this mark before the length
		prefix = prefix[:8]
		if _, err := io.ReadFull(f.r, prefix[4:]); err != nil {
			return noEOF(err)
		}
		size = binary.LittleEndian.Uint32(prefix[4:])
	}
	if size == 0 {
		f.head = prefix
		return io.EOF
	}
	if size > maxArrowHead {
		return fmt.Errorf("the head of a message has %d bytes, where %d are the most", size, maxArrowHead)
	}
	f.head = append(prefix, make([]byte, size)...)
	meta := f.head[len(prefix):]
	_, err := io.ReadFull(f.r, meta)
	if err == nil {
		f.body, err = checkMessage(meta)
	}
	if err == nil && f.body > f.most {
		err = fmt.Errorf("the body of a message has %d bytes, where %d are the most", f.body, f.most)
	}
	if err != nil {
		f.head, f.body = nil, 0
		return noEOF(err)
	}
	return nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// The places of fields in Arrow's FlatBuffers tables.
const (
	slotMessageType, slotMessageHeader, slotMessageBody, slotMessageMeta = 6, 8, 10, 12
	slotSchemaFields, slotSchemaMeta, slotSchemaFeatures                 = 6, 8, 10
	slotFieldTypeKind, slotFieldType, slotFieldChildren, slotFieldMeta   = 8, 10, 14, 16
	slotBatchRows, slotBatchNodes, slotBatchBuffers, slotBatchVariadic   = 4, 6, 8, 12
	slotDictionaryBatch                                                  = 6
	slotUnionIDs                                                         = 6

	headerSchema, headerDictionary, headerBatch = 1, 2, 3
	kindUnion                                   = 14
)

var errArrowList = errors.New("a list is longer than the message that has it")

// checkMessage checks the lists in the head of a message, and gives the length of its body.
func checkMessage(meta []byte) (body int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the head of a message is damaged: %v", p)
		}
	}()
	m := &flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
	body = m.GetInt64Slot(slotMessageBody, 0)
	if body < 0 {
		return 0, fmt.Errorf("a message has a body of %d bytes", body)
	}
	if err := checkTables(m, slotMessageMeta); err != nil {
		return 0, err
	}
	header, ok := subtable(m, slotMessageHeader)
	if !ok {
		return 0, errors.New("a message has no header")
	}
	switch m.GetByteSlot(slotMessageType, 0) {
	case headerSchema:
		fields := 0
		return body, errors.Join(checkTables(header, slotSchemaMeta), checkList(header, slotSchemaFeatures, 8),
			checkFields(header, slotSchemaFields, 0, &fields))
	case headerDictionary:
		if header, ok = subtable(header, slotDictionaryBatch); !ok {
			return 0, errors.New("a dictionary has no values")
		}
		fallthrough
	case headerBatch:
		if rows := header.GetInt64Slot(slotBatchRows, 0); rows < 0 || rows > math.MaxInt32 {
			return 0, fmt.Errorf("a record batch has %d rows", rows)
		}
		return body, errors.Join(checkList(header, slotBatchNodes, 16), checkList(header, slotBatchBuffers, 16),
			checkList(header, slotBatchVariadic, 8))
	}
	return body, nil
}

// checkFields checks a list of fields and what is nested in them.
func checkFields(t *flatbuffers.Table, slot flatbuffers.VOffsetT, depth int, fields *int) error {
	if err := checkTables(t, slot); err != nil {
		return err
	}
	if depth > maxArrowDepth {
		return fmt.Errorf("fields are nested more than %d deep", maxArrowDepth)
	}
	for i := range listLen(t, slot) {
		if *fields++; *fields > maxArrowFields {
			return fmt.Errorf("a schema has more than %d fields", maxArrowFields)
		}
		f := element(t, slot, i)
		if err := checkTables(f, slotFieldMeta); err != nil {
			return err
		}
		if typ, ok := subtable(f, slotFieldType); ok && f.GetByteSlot(slotFieldTypeKind, 0) == kindUnion {
			if err := checkList(typ, slotUnionIDs, 4); err != nil {
				return err
			}
		}
		if err := checkFields(f, slotFieldChildren, depth+1, fields); err != nil {
			return err
		}
	}
	return nil
}

// checkTables checks a list of tables: FlatBuffers keeps their places, of four bytes each.
func checkTables(t *flatbuffers.Table, slot flatbuffers.VOffsetT) error { return checkList(t, slot, 4) }

// checkList checks that a list of elements of the given size is inside the message.
func checkList(t *flatbuffers.Table, slot flatbuffers.VOffsetT, size int) error {
	n := listLen(t, slot)
	if n == 0 {
		return nil
	}
	start := int(t.Vector(flatbuffers.UOffsetT(t.Offset(slot))))
	if start < 0 || n > (len(t.Bytes)-start)/size {
		return errArrowList
	}
	return nil
}

func listLen(t *flatbuffers.Table, slot flatbuffers.VOffsetT) int {
	if at := t.Offset(slot); at != 0 {
		return t.VectorLen(flatbuffers.UOffsetT(at))
	}
	return 0
}

func element(t *flatbuffers.Table, slot flatbuffers.VOffsetT, i int) *flatbuffers.Table {
	at := t.Vector(flatbuffers.UOffsetT(t.Offset(slot))) + flatbuffers.UOffsetT(4*i)
	return &flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(at)}
}

func subtable(t *flatbuffers.Table, slot flatbuffers.VOffsetT) (*flatbuffers.Table, bool) {
	at := t.Offset(slot)
	if at == 0 {
		return nil, false
	}
	return &flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.Pos + flatbuffers.UOffsetT(at))}, true
}
