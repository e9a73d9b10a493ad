package file

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

var errFull = errors.New("no space left on device")

// smallDisk takes so many bytes.
type smallDisk struct{ left int }

func (d *smallDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	d.left -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// TestFullDisk: wherever the disk is full, the reason is told once and as it is.
func TestFullDisk(t *testing.T) {
	schema := &dataflow.Schema{Columns: []dataflow.Column{
		{Name: "n", Type: dataflow.IntType}, {Name: "s", Type: dataflow.StringType, Nullable: true}, {Name: "d", Type: dataflow.DecimalType(30, 2)}}}
	b := batch.New(schema)
	for range 500 {
		b.Cols[0].Append(&batch.Vector{Type: dataflow.IntType, Len: 1, Ints: []int64{7}}, 0)
		b.Cols[1].AppendBytes([]byte("some text"))
	}
	b.Cols[2].Reset(dataflow.DecimalType(30, 2), 500)
	b.Len = 500
	for _, format := range formats {
		for n := 0; ; n += 1 + n/10 {
			disk := &smallDisk{left: n}
			e, err := newEncoder(disk, format, EncodeOptions{Schema: schema, Header: true, Delimiter: ','})
			if err == nil {
				err = errors.Join(e.Encode(b), e.Flush())
			}
			if err == nil {
				err = e.Finish()
			}
			if err == nil {
				break
			}
			if strings.Count(err.Error(), errFull.Error()) != 1 || strings.Contains(err.Error(), "unknown") || !errors.Is(err, errFull) {
				t.Fatalf("%s, full after %d bytes: %v", format, n, err)
			}
		}
	}
}

// TestCutPackedFile: a packed file that is not whole is told to be so, once.
func TestCutPackedFile(t *testing.T) {
	var text, gz, zst bytes.Buffer
	text.WriteString("n\n")
	for range 5000 {
		text.WriteString("1234\n5\n")
	}
	z := gzip.NewWriter(&gz)
	y, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{z, y} {
		if _, err := w.Write(text.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for ending, data := range map[string][]byte{".gz": gz.Bytes(), ".zst": zst.Bytes()} {
		for _, format := range []string{"csv", "ndjson", "arrow", "parquet"} {
			for _, n := range []int{5, len(data) / 2, len(data) - 1} {
				path := filepath.Join(t.TempDir(), "in."+format+ending)
				if err := os.WriteFile(path, data[:n], 0o666); err != nil {
					t.Fatal(err)
				}
				err := readAll(path, format)
				if err == nil || strings.Count(err.Error(), errCut.Error()) != 1 {
					t.Errorf("%d bytes of %d of a %s file packed as %s: %v", n, len(data), format, ending, err)
				}
			}
		}
	}
}

// readAll reads all rows of a file.
func readAll(path, format string) error {
	in, err := openInput(path, format, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	dec, err := newDecoder(in, format, DecodeOptions{Name: path, Schema: numberSchema, Header: true, Delimiter: ',', Workers: 1})
	if err != nil {
		return err
	}
	defer dec.Close()
	for {
		if _, err := dec.Next(context.Background()); err != nil {
			return err
		}
	}
}

// TestFloatsThatAreNoNumbers come back from CSV as they were.
func TestFloatsThatAreNoNumbers(t *testing.T) {
	schema := &dataflow.Schema{Columns: []dataflow.Column{{Name: "x", Type: dataflow.FloatType}}}
	values := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1.5}
	b := batch.New(schema)
	b.Len = len(values)
	b.Cols[0] = batch.Vector{Type: dataflow.FloatType, Len: len(values), Floats: values}
	var out bytes.Buffer
	e, err := newEncoder(&out, "csv", EncodeOptions{Schema: schema, Header: true, Delimiter: ','})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Encode(b), e.Finish()); err != nil {
		t.Fatal(err)
	}
	dec, err := newCSVDecoder(&out, DecodeOptions{Schema: schema, Header: true, Delimiter: ',', Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	c, err := dec.Next(context.Background())
	if err != nil || len(c.Bad) > 0 || c.Batch.Len != len(values) {
		t.Fatal(c, err)
	}
	for i, want := range values {
		if got := c.Batch.Cols[0].Floats[i]; got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%v has become %v", want, got)
		}
	}
	for _, bad := range []string{"nan", "Inf", "+inf", "Infinity", "NaN1"} {
		if _, err := parseFloat([]byte(bad)); err == nil {
			t.Errorf("%q is read as a float", bad)
		}
	}
}
