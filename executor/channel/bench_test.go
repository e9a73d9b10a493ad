package channel

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// kindsOfRows are what the benchmarks send: 8192 rows each.
func kindsOfRows() map[string]*batch.Batch {
	mixed := &dataflow.Schema{Columns: []dataflow.Column{{Name: "t", Type: dataflow.TimestampType}, {Name: "id", Type: dataflow.IntType},
		{Name: "name", Type: dataflow.StringType}, {Name: "price", Type: dataflow.FloatType, Nullable: true}, {Name: "ok", Type: dataflow.BoolType}}}
	sel := rowsOf(intSchema(4), 1, 0, 8192, true, 0)
	return map[string]*batch.Batch{
		"ints":     rowsOf(intSchema(8), 1, 0, 8192, false, 0),
		"mixed":    rowsOf(mixed, 1, 0, 8192, false, 0),
		"selected": sel,
	}
}

// bytesIn is what a batch's rows amount to, at 8 bytes a value besides text.
func bytesIn(b *batch.Batch) int64 {
	n := 8 * len(b.Cols) * b.Rows()
	for i := range b.Cols {
		n += len(b.Cols[i].Data)
	}
	return int64(n)
}

func BenchmarkEncode(b *testing.B) {
	for name, rows := range kindsOfRows() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(bytesIn(rows))
			s := NewSender(SenderConfig{Schema: rows.Schema, Store: NewRetention(1<<40, "")})
			epoch := int64(0)
			for b.Loop() {
				epoch++
				if err := s.Rows(epoch, epoch-1, 0, rows); err != nil {
					b.Fatal(err)
				}
				if err := s.Mark(operators.Mark{Epoch: epoch, Prev: epoch - 1}); err != nil {
					b.Fatal(err)
				}
				s.Trim(epoch)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, rows := range kindsOfRows() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(bytesIn(rows))
			dense, view, c := &batch.Batch{}, &batch.Batch{}, newCodec(rows.Schema)
			dense.CopyFrom(rows)
			msg, err := c.encode(&header{kind: kindRows, epoch: 1}, dense, 0, dense.Len, view)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				h, err := readHeader(msg)
				if err != nil {
					b.Fatal(err)
				}
				if err := c.decode(&h, msg, view); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkThroughput takes rows from Rows to Deliver.
func BenchmarkThroughput(b *testing.B) {
	for name, rows := range kindsOfRows() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(bytesIn(rows))
			benchmarkChannel(b, rows)
		})
	}
}

// BenchmarkSmallEpochs takes epochs of ten rows through a channel: what an idle query costs.
func BenchmarkSmallEpochs(b *testing.B) {
	b.ReportAllocs()
	benchmarkChannel(b, rowsOf(intSchema(4), 1, 0, 10, false, 0))
}

func benchmarkChannel(b *testing.B, rows *batch.Batch) {
	p := newPair(rows.Schema, After(0), 0)
	p.s.Connected()
	epoch, got := int64(0), int64(0)
	for b.Loop() {
		epoch++
		if err := p.s.Rows(epoch, epoch-1, 0, rows); err != nil {
			b.Fatal(err)
		}
		if err := p.s.Mark(operators.Mark{Epoch: epoch, Prev: epoch - 1}); err != nil {
			b.Fatal(err)
		}
		if err := p.talk(); err != nil {
			b.Fatal(err)
		}
		for d, ok := p.r.Deliver(); ok; d, ok = p.r.Deliver() {
			if d.Rows != nil {
				got += int64(d.Rows.Len)
			}
			p.r.Release(d)
		}
		p.s.Trim(epoch - 1)
	}
	if want := epoch * int64(rows.Rows()); got != want {
		b.Fatalf("%d rows arrived of %d", got, want)
	}
}

// BenchmarkSpill retains rows for a target that is gone, and has no memory for them.
func BenchmarkSpill(b *testing.B) {
	rows := kindsOfRows()["ints"]
	b.ReportAllocs()
	b.SetBytes(bytesIn(rows))
	store := NewRetention(0, b.TempDir())
	s := NewSender(SenderConfig{Schema: rows.Schema, Store: store})
	epoch := int64(0)
	for b.Loop() {
		epoch++
		if err := s.Rows(epoch, epoch-1, 0, rows); err != nil {
			b.Fatal(err)
		}
		if err := s.Mark(operators.Mark{Epoch: epoch, Prev: epoch - 1}); err != nil {
			b.Fatal(err)
		}
		s.Trim(epoch - 100)
	}
	if err := store.Err(); err != nil {
		b.Fatal(err)
	}
	s.Close()
}

// BenchmarkArrowIPC is what Arrow's own format costs for the same rows.
func BenchmarkArrowIPC(b *testing.B) {
	for name, rows := range kindsOfRows() {
		schema := batch.ArrowSchema(rows.Schema)
		b.Run("encode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(bytesIn(rows))
			var out bytes.Buffer
			w := ipc.NewWriter(&out, ipc.WithSchema(schema))
			for b.Loop() {
				out.Reset()
				if err := w.Write(batch.ToArrow(rows, schema)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("decode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(bytesIn(rows))
			var out bytes.Buffer
			w := ipc.NewWriter(&out, ipc.WithSchema(schema))
			if err := w.Write(batch.ToArrow(rows, schema)); err != nil {
				b.Fatal(err)
			}
			view := &batch.Batch{}
			for b.Loop() {
				r, err := ipc.NewReader(bytes.NewReader(out.Bytes()))
				if err != nil {
					b.Fatal(err)
				}
				if !r.Next() {
					b.Fatal(r.Err())
				}
				if err := batch.FromArrow(r.RecordBatch(), rows.Schema, view); err != nil {
					b.Fatal(err)
				}
				r.Release()
			}
		})
	}
}
