package channel

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// frameOf is a frame of the rows of an epoch.
func frameOf(t testing.TB, s *dataflow.Schema, epoch, from, to, junk int64) []byte {
	dense := &batch.Batch{}
	dense.CopyFrom(rowsOf(s, epoch, from, to, false, junk))
	h := header{kind: kindRows, generation: 1, session: 1, epoch: epoch, prev: epoch - 1, row: from}
	msg, err := newCodec(s).encode(&h, dense, 0, dense.Len, &batch.Batch{})
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func decodeFrame(s *dataflow.Schema, msg []byte) (*batch.Batch, error) {
	h, err := readHeader(msg)
	if err != nil {
		return nil, err
	}
	view := &batch.Batch{}
	return view, newCodec(s).decode(&h, msg, view)
}

// TestFrames: any run of rows of a batch comes back as it was, with its watermarks.
func TestFrames(t *testing.T) {
	s := allTypes()
	rapid.Check(t, func(t *rapid.T) {
		epoch, n := rapid.Int64Range(1, 20).Draw(t, "epoch"), rapid.Int64Range(1, 200).Draw(t, "rows")
		src := rowsOf(s, epoch, 0, n, false, 99)
		from := rapid.IntRange(0, src.Len-1).Draw(t, "from")
		to := rapid.IntRange(from+1, src.Len).Draw(t, "to")
		view := &batch.Batch{}
		msg, err := newCodec(s).encode(&header{kind: kindRows, epoch: epoch}, src, from, to, view)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeFrame(s, msg)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Validate(); err != nil {
			t.Fatal(err)
		}
		if want, have := texts(src, true)[from:to], texts(got, true); !slices.Equal(want, have) {
			t.Fatalf("got\n%q, want\n%q", have, want)
		}
	})
}

// TestEqualRowsMakeEqualFrames: what NULL rows hold and bits beyond the last row do not get out.
func TestEqualRowsMakeEqualFrames(t *testing.T) {
	s := allTypes()
	for n := int64(1); n < 140; n += 23 {
		if a, b := frameOf(t, s, 1, 0, n, 5), frameOf(t, s, 1, 0, n, 66); !slices.Equal(a, b) {
			t.Errorf("frames of %d equal rows differ", n)
		}
	}
}

// TestSumDoesNotDependOnCuts: and does depend on values, NULLs and order.
func TestSumDoesNotDependOnCuts(t *testing.T) {
	s := allTypes()
	sum := func(batches ...*batch.Batch) uint64 {
		var r rowSum
		r.reset(len(s.Columns))
		for _, b := range batches {
			view := &batch.Batch{}
			dense := &batch.Batch{}
			dense.CopyFrom(b)
			if _, err := newCodec(s).encode(&header{}, dense, 0, dense.Len, view); err != nil {
				t.Fatal(err)
			}
			r.add(view)
		}
		return r.value()
	}
	whole := sum(rowsOf(s, 2, 0, 300, false, 1))
	rapid.Check(t, func(t *rapid.T) {
		var parts []*batch.Batch
		for from := int64(0); from < 300; {
			to := min(300, from+rapid.Int64Range(1, 130).Draw(t, "rows"))
			parts = append(parts, rowsOf(s, 2, from, to, rapid.Bool().Draw(t, "select"), to))
			from = to
		}
		if got := sum(parts...); got != whole {
			t.Fatalf("checksum %x in %d parts, %x in one", got, len(parts), whole)
		}
	})
	for name, other := range map[string]uint64{
		"a row less":       sum(rowsOf(s, 2, 0, 299, false, 1)),
		"another order":    sum(rowsOf(s, 2, 1, 2, false, 1), rowsOf(s, 2, 0, 1, false, 1), rowsOf(s, 2, 2, 300, false, 1)),
		"one other row":    sum(rowsOf(s, 2, 0, 150, false, 1), rowsOf(s, 3, 150, 151, false, 1), rowsOf(s, 2, 151, 300, false, 1)),
		"one row repeated": sum(rowsOf(s, 2, 0, 299, false, 1), rowsOf(s, 2, 298, 299, false, 1)),
	} {
		if other == whole {
			t.Errorf("%s: the checksum is the same", name)
		}
	}
	// Each column counts.
	for i := range s.Columns {
		b := rowsOf(s, 2, 0, 70, false, 1)
		before := sum(b)
		change(&b.Cols[i], 69)
		if sum(b) == before {
			t.Errorf("column %q does not count", s.Columns[i].Name)
		}
	}
}

// change changes the value of a row, and makes it one if it was NULL.
func change(v *batch.Vector, row int) {
	if v.IsNull(row) {
		v.Valid.Set(row)
		return
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		v.Bits.SetTo(row, !v.Bits.Get(row))
	case dataflow.Float:
		v.Floats[row]++
	case dataflow.Decimal:
		v.Decimals[row].Hi++
	case dataflow.String, dataflow.Bytes:
		v.Data = append(v.Data, 'x')
		v.Offsets[row+1]++
	default:
		v.Ints[row]++
	}
}

// TestFramesAreBounded: rows are cut so that frames stay small, and one that is too large is refused.
func TestFramesAreBounded(t *testing.T) {
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "a", Type: dataflow.BytesType}, {Name: "b", Type: dataflow.BytesType}}}
	text := func(sizes ...int) *batch.Batch {
		b := batch.New(s)
		for _, n := range sizes {
			b.Cols[0].AppendBytes(make([]byte, n))
			b.Cols[1].AppendBytes(nil)
			b.Len++
		}
		return b
	}
	send := NewSender(SenderConfig{Channel: "c", Schema: s, Store: NewRetention(1<<40, "")})
	sizes := []int{10, 600 << 10, 300 << 10, 300 << 10, 3 << 20, 10, 20, 900 << 10}
	if err := send.Rows(1, 0, 0, text(sizes...)); err != nil {
		t.Fatal(err)
	}
	var rows []uint32
	for _, f := range send.shelf.frames {
		h, err := readHeader(f.msg)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, h.rows)
		if f.size > targetFrame && h.rows > 1 {
			t.Errorf("a frame of %d rows has %d bytes", h.rows, f.size)
		}
	}
	if !slices.Equal(rows, []uint32{3, 1, 1, 3}) {
		t.Errorf("frames of %d rows", rows)
	}
	big := text(10)
	big.Cols[1] = big.Cols[0]
	big.Cols[0].Data = make([]byte, MaxFrame)
	big.Cols[0].Offsets = []int32{0, MaxFrame}
	if err := send.Rows(1, 0, 0, big); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a row larger than a frame: %v", err)
	}
	small := NewSender(SenderConfig{Channel: "c", Generation: 1, Schema: two, Start: After(0), Message: 1 << 10, Store: NewRetention(1<<30, "")})
	if err := errors.Join(small.Rows(1, 0, 0, rowsOf(two, 1, 0, 1000, false, 0)), small.Mark(operators.Mark{Epoch: 1})); err != nil {
		t.Errorf("rows that fit one by one: %v", err)
	}
	for _, f := range small.shelf.frames {
		if f.size > 1<<10 {
			t.Errorf("a frame of %d bytes where 1024 are possible", f.size)
		}
	}
	limited := NewSender(SenderConfig{Channel: "c", Generation: 1, Schema: s, Start: After(0), Message: 256 << 10, Store: NewRetention(1<<30, "")})
	if err := limited.Rows(1, 0, 0, text(300<<10)); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), strconv.Itoa(256<<10-headSize)) {
		t.Errorf("a row larger than the transport carries: %v", err)
	}
	nulls := rowsOf(two, 1, 0, 3, false, 0)
	setNull(&nulls.Cols[1], 1)
	other := sender(two, 1, After(0), 0)
	other.smallRows = 0
	if err := other.Rows(1, 0, 0, nulls); err == nil {
		t.Error("NULL in a column that has none was sent")
	}
}

// reseal makes the checksums of a message right again after it was changed.
func reseal(msg []byte) []byte {
	if len(msg) >= headSize {
		binary.LittleEndian.PutUint32(msg[84:], uint32(len(msg)-headSize))
		binary.LittleEndian.PutUint32(msg[88:], crc32.Checksum(msg[headSize:], castagnoli))
		binary.LittleEndian.PutUint32(msg[atSum:], crc32.Checksum(msg[:atSum], castagnoli))
	}
	return msg
}

// TestDamage: no changed bit and no cut goes unnoticed.
func TestDamage(t *testing.T) {
	s := allTypes()
	msg := frameOf(t, s, 1, 0, 5, 0)
	for i := range msg {
		bad := slices.Clone(msg)
		bad[i] ^= 1 << (i % 8)
		if _, err := decodeFrame(s, bad); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if _, err := decodeFrame(s, msg[:i]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	if _, err := decodeFrame(two, msg); !errors.Is(err, ErrSchema) {
		t.Errorf("another schema: %v", err)
	}
}

// TestMadeUp: what a message with right checksums says wrong is an error.
func TestMadeUp(t *testing.T) {
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "a", Type: dataflow.StringType}, {Name: "b", Type: dataflow.IntType}}}
	body := func(i int) int { return headSize + i }
	for name, spoil := range map[string]func(b []byte) []byte{
		"a NULL where none may be":   func(b []byte) []byte { b[body(8)] = 1; return append(b, make([]byte, 8)...) },
		"flags of a column":          func(b []byte) []byte { b[body(0)] = 2; return b },
		"text of a number":           func(b []byte) []byte { b[body(12)] = 1; return b },
		"much text":                  func(b []byte) []byte { b[body(7)] = 0xff; return b },
		"less text":                  func(b []byte) []byte { b[body(4)]--; return b },
		"an offset that falls":       func(b []byte) []byte { b[body(16+4)] = 200; return b },
		"an offset below 0":          func(b []byte) []byte { b[body(16+11)] = 0x80; return b },
		"a first offset above 0":     func(b []byte) []byte { b[body(16)] = 1; return b },
		"a body that is too long":    func(b []byte) []byte { return append(b, make([]byte, 8)...) },
		"a body that is too short":   func(b []byte) []byte { return b[:len(b)-8] },
		"no room for the table":      func(b []byte) []byte { return b[:headSize+8] },
		"watermarks that are not":    func(b []byte) []byte { b[5] |= flagRowWatermarks; return b },
		"more rows":                  func(b []byte) []byte { b[80]++; return b },
		"very many rows":             func(b []byte) []byte { b[83] = 0xff; return b },
		"no rows":                    func(b []byte) []byte { b[80] = 0; return b },
		"an unknown kind":            func(b []byte) []byte { b[4] = 99; return b },
		"unknown flags":              func(b []byte) []byte { b[5] = 0x80; return b },
		"another version":            func(b []byte) []byte { b[3]++; return b },
		"a session below 0":          func(b []byte) []byte { b[atSession+7] = 0x80; return b },
		"a row below 0":              func(b []byte) []byte { b[47] = 0x80; return b },
		"a row far away":             func(b []byte) []byte { b[47] = 0x7f; return b },
		"an epoch before the former": func(b []byte) []byte { b[24] = 0; return b },
		"an offset far away":         func(b []byte) []byte { b[atOffset+7] = 0x7f; return b },
		"a mark with a body":         func(b []byte) []byte { b[4] = byte(kindMark); return b },
	} {
		if _, err := decodeFrame(s, reseal(spoil(frameOf(t, s, 1, 0, 5, 0)))); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wrong := (&header{kind: kindResume, number: maxOffset + 1}).message()
	send, recv := sender(two, 0, After(0), 0), receiver(two, After(0), 0)
	send.Connected()
	hello, _ := send.Next()
	for name, err := range map[string]error{
		"a resume with a huge window":   send.Message(wrong),
		"a hello to a producer":         send.Message(hello),
		"nothing":                       send.Message(nil),
		"a resume to a consumer":        recv.Receive(0, wrong),
		"nothing to a consumer":         recv.Receive(0, nil),
		"a session with none behind it": recv.Receive(0, (&header{kind: kindHello, session: maxSession}).message()),
	} {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReceive: a producer that sends anything gets an error or is believed; a batch that is delivered is
// sound, and nothing panics.
func FuzzReceive(f *testing.F) {
	s := allTypes()
	seedSender := NewSender(SenderConfig{Generation: 1, Schema: s, Store: NewRetention(1<<20, "")})
	seedSender.Connected()
	hello, _ := seedSender.Next()
	f.Add(hello)
	f.Add((&header{kind: kindTail, generation: 1, session: 1, epoch: 9, row: 3, offset: 9}).message())
	f.Add((&header{kind: kindTrimmed, generation: 1, session: 1, epoch: 9}).message())
	f.Add((&header{kind: kindMark, flags: flagEnd, generation: 1, session: 1, epoch: 9}).message())
	f.Add((&header{kind: kindResume, generation: 1, session: 3, number: 9}).message())
	for n := int64(1); n < 80; n += 26 {
		f.Add(frameOf(f, s, 1, 0, n, 0))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		for _, msg := range [][]byte{slices.Clone(msg), reseal(slices.Clone(msg))} {
			send := NewSender(SenderConfig{Generation: 1, Schema: s, Store: NewRetention(1<<20, "")})
			send.Connected()
			if err := errors.Join(send.Rows(1, 0, 0, rowsOf(s, 1, 0, 3, false, 0)), send.Mark(operators.Mark{Epoch: 1})); err != nil {
				t.Fatal(err)
			}
			if err := send.Message(msg); err != nil && !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			for range 5 {
				send.Next()
			}
			r := receiver(s, After(0), 0)
			r.current(&header{kind: kindHello, generation: 1}) // begins session 1
			if err := r.Receive(1, msg); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrSchema) && !errors.Is(err, ErrDiffers) {
				t.Fatal(err)
			}
			for d, ok := r.Deliver(); ok; d, ok = r.Deliver() {
				if d.Rows != nil {
					if err := d.Rows.Validate(); err != nil {
						t.Fatal(err)
					}
					texts(d.Rows, true)
				}
				r.Release(d)
			}
			r.Next()
		}
	})
}
