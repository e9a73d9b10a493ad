package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// benchText is the text of n rows of key, float, short string and timestamp, each field between quotes
// if quoted is set.
func benchText(n int, quoted bool) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	for i := range n {
		key := strconv.Itoa(rng.IntN(10_000))
		price := strconv.FormatFloat(float64(rng.IntN(1_000_000))/100, 'f', -1, 64)
		word := fmt.Sprintf("w%04x", rng.IntN(1<<16))
		at := start.Add(time.Duration(i) * 100 * time.Millisecond).Format("2006-01-02T15:04:05.000Z")
		if quoted {
			fmt.Fprintf(&out, "%q,%q,%q,%q\n", key, price, word, at)
		} else {
			fmt.Fprintf(&out, "%s,%s,%s,%s\n", key, price, word, at)
		}
	}
	return out.Bytes()
}

func benchTextSchema(b testing.TB) *dataflow.Schema {
	return columns(b, "key int,price float,word string,at timestamp*")
}

// repeated is a reader of text, over and over.
type repeated struct {
	text []byte
	n    int // how often
	pos  int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.pos == len(r.text) {
		r.pos = 0
		r.n--
	}
	if r.n <= 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[r.pos:])
	r.pos += n
	return n, nil
}

func countTextRows(b testing.TB, d Decoder) (rows int) {
	for {
		c, err := d.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil || len(c.Bad) > 0 {
			b.Fatal(err, c)
		}
		rows += c.Batch.Len
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	return rows
}

// BenchmarkCSVBlock decodes blocks on one goroutine, with nothing around it.
func BenchmarkCSVBlock(b *testing.B) {
	for _, quoted := range []bool{false, true} {
		b.Run(fmt.Sprintf("quoted=%v", quoted), func(b *testing.B) {
			text := benchText(10_000, quoted)
			f, err := newCSVFormat(DecodeOptions{Schema: benchTextSchema(b)})
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := f.begin(text, true); err != nil {
				b.Fatal(err)
			}
			r := f.newRows()
			block := &textBlock{buf: append(bytes.Clone(text), make([]byte, textPad)...), n: len(text), lines: 10_000, line: 1}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				block.used = 0
				r.decode(block)
			}
		})
	}
}

// BenchmarkCSVDecode decodes 40 MB with the whole decoder.
func BenchmarkCSVDecode(b *testing.B) {
	text := benchText(100_000, false)
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.SetBytes(10 * int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				d, err := newCSVDecoder(&repeated{text: text, n: 10}, DecodeOptions{Schema: benchTextSchema(b), Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				if n := countTextRows(b, d); n != 1_000_000 {
					b.Fatal(n, "rows")
				}
			}
		})
	}
}

// benchTextBatch is one batch of benchText.
func benchTextBatch(b *testing.B) (*batch.Batch, int) {
	text := benchText(8000, false)
	d, err := newCSVDecoder(bytes.NewReader(text), DecodeOptions{Schema: benchTextSchema(b)})
	if err != nil {
		b.Fatal(err)
	}
	c, err := d.Next(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	copied := batch.New(c.Batch.Schema)
	copied.CopyFrom(c.Batch)
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	return copied, len(text)
}

func BenchmarkEncode(b *testing.B) {
	for _, format := range []struct {
		name string
		make encoderFunc
	}{{"csv", newCSVEncoder}, {"ndjson", newNDJSONEncoder}} {
		b.Run(format.name, func(b *testing.B) {
			rows, size := benchTextBatch(b)
			e, err := format.make(io.Discard, EncodeOptions{Schema: rows.Schema})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Encode(rows); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNDJSONDecode decodes 70 MB.
func BenchmarkNDJSONDecode(b *testing.B) {
	rows, _ := benchTextBatch(b)
	var text bytes.Buffer
	e, err := newNDJSONEncoder(&text, EncodeOptions{Schema: rows.Schema})
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(e.Encode(rows), e.Finish()); err != nil {
		b.Fatal(err)
	}
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.SetBytes(100 * int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				d, err := newNDJSONDecoder(&repeated{text: text.Bytes(), n: 100}, DecodeOptions{Schema: benchTextSchema(b), Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				countTextRows(b, d)
			}
		})
	}
}
