package file

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"sluice/dataflow"
)

// hostileSchema is what a damaged file is read as.
func hostileSchema(name string) *dataflow.Schema {
	s := &dataflow.Schema{}
	add := func(name string, t dataflow.Type) {
		s.Columns = append(s.Columns, dataflow.Column{Name: name, Type: t, Nullable: true})
	}
	switch name {
	case "delta.parquet":
		add("i64", dataflow.IntType)
		add("s", dataflow.StringType)
		add("fixed", dataflow.BytesType)
		add("f64", dataflow.FloatType)
	case "int96.parquet":
		add("ts_us", dataflow.TimestampType)
	case "misfits.parquet", "misfits.arrow":
		add("t", dataflow.TimestampType)
		add("dec", dataflow.DecimalType(20, 3))
	case "nested.parquet":
		add("id", dataflow.IntType)
	case "duckdb.parquet":
		add("id", dataflow.IntType)
		add("name", dataflow.StringType)
		add("price", dataflow.DecimalType(10, 2))
	default:
		for _, c := range typesColumns() {
			if c.name != "f16" && c.name != "u8" && s.Index(c.name) < 0 {
				add(c.name, c.typ)
			}
		}
	}
	return s
}

func hostileOpen(name string) openFunc {
	if filepath.Ext(name) == ".parquet" {
		return openParquetBytes
	}
	return openArrowBytes
}

func columnarFiles(t testing.TB) []string {
	entries, err := os.ReadDir("testdata/columnar")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".py" {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestTruncated cuts files short. Where they have an end that tells, that is an error.
func TestTruncated(t *testing.T) {
	for _, name := range columnarFiles(t) {
		data := testFile(t, name)
		s := hostileSchema(name)
		if _, err := decodeAll(hostileOpen(name), data, DecodeOptions{Schema: s}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		step := max(1, len(data)/200)
		for n := 0; n < len(data); n += step {
			opens := []openFunc{hostileOpen(name)}
			if filepath.Ext(name) == ".arrow" {
				opens = append(opens, openArrowPipe)
			}
			for _, open := range opens {
				_, err := decodeAll(open, data[:n], DecodeOptions{Schema: s, Workers: 1 + n%2})
				if err == nil && filepath.Ext(name) != ".arrows" {
					t.Errorf("%s: the first %d of %d bytes are no error", name, n, len(data))
				}
				if err == io.EOF {
					t.Errorf("%s: the first %d bytes give a bare EOF", name, n)
				}
			}
		}
	}
}

// TestDamaged flips bytes. Any result is right but a panic, a hang or an invalid batch.
func TestDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range columnarFiles(t) {
		data := testFile(t, name)
		for range 60 {
			bad := bytes.Clone(data)
			for range 1 + r.IntN(4) {
				bad[r.IntN(len(bad))] ^= byte(1 << r.IntN(8))
			}
			readHostile(t, name, bad)
		}
	}
}

func readHostile(t *testing.T, name string, data []byte) {
	skim(t, hostileOpen(name), data, DecodeOptions{Schema: hostileSchema(name), Workers: 1 + len(data)%2})
}

// skim reads a damaged file as far as it goes, but not more rows than any sound test file has: a few
// bytes may tell of billions of NULLs. Errors are expected, batches that break the rules are not.
func skim(t *testing.T, open openFunc, data []byte, o DecodeOptions) {
	d, err := open(data, o)
	if err != nil {
		return
	}
	defer d.Close()
	for rows := 0; rows < 10_000; {
		c, err := d.Next(context.Background())
		if err != nil {
			return
		}
		if err := c.Batch.Validate(); err != nil {
			t.Fatal(err)
		}
		rows += c.Batch.Len + len(c.Bad)
	}
}

func FuzzParquet(f *testing.F) {
	for _, name := range columnarFiles(f) {
		if filepath.Ext(name) == ".parquet" {
			f.Add(testFile(f, name))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := InferParquet(bytes.NewReader(data))
		if s == nil || len(s.Columns) == 0 {
			if err == nil {
				t.Fatal("neither schema nor error")
			}
			return
		}
		skim(t, openParquetBytes, data, DecodeOptions{Schema: s, Workers: 1})
	})
}

func FuzzArrow(f *testing.F) {
	for _, name := range columnarFiles(f) {
		if filepath.Ext(name) != ".parquet" {
			f.Add(testFile(f, name))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := InferArrow(bytes.NewReader(data))
		if s == nil {
			if err == nil {
				t.Fatal("neither schema nor error")
			}
			return
		}
		for _, open := range []openFunc{openArrowBytes, openArrowPipe} {
			skim(t, open, data, DecodeOptions{Schema: s, Workers: 1})
		}
	})
}
