package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The shape of the data. Rows come mostly in the order of time: one in sixteen is up to maxJitter
// seconds early. Values are multiples of 1/64 below 100, so that sums of them are exact in any order.
const (
	generator     = 1 // changes with anything below, so that data of an older form is made anew
	keys          = 10_000
	names         = 500
	rowsPerSecond = 2_000
	maxJitter     = 2             // seconds
	startTime     = 1_704_067_200 // 2024-01-01T00:00:00Z
)

// row is one row of the data.
type row struct {
	key   int64
	value float64
	delay int64 // minutes, only for the jobs in memory
	name  int64 // number of the name
	time  int64 // seconds since 1970
}

// rowAt is row i of the data, a function of i alone.
func rowAt(i int) row {
	h := mix(uint64(i) + 1)
	r := row{
		key:   int64(h % keys),
		value: float64(h>>16%6400) / 64,
		delay: int64(h >> 32 % 300),
		name:  int64(h >> 40 % names),
		time:  startTime + int64(i/rowsPerSecond),
	}
	if h>>50%16 == 0 {
		r.time -= int64(h >> 54 % (maxJitter + 1))
	}
	return r
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// appendRow appends row i as a line of CSV.
func appendRow(b []byte, r row) []byte {
	b = strconv.AppendInt(b, r.key, 10)
	b = append(b, ',')
	b = strconv.AppendFloat(b, r.value, 'f', -1, 64)
	b = append(b, ",site-"...)
	b = append(b, byte('0'+r.name/100), byte('0'+r.name/10%10), byte('0'+r.name%10), ',')
	b = time.Unix(r.time, 0).UTC().AppendFormat(b, time.RFC3339)
	return append(b, '\n')
}

const csvHeader = "key,value,name,ts"

// file is a data file and what it must contain.
type file struct {
	Name string
	Size int64
	CRC  uint32 // Castagnoli, of the whole file
}

// dataset is the data in both formats. It is kept as JSON beside its files, written after them.
type dataset struct {
	Generator, Rows int
	CSV, Parquet    file
	dir             string
}

func (d *dataset) csvPath() string     { return filepath.Join(d.dir, d.CSV.Name) }
func (d *dataset) parquetPath() string { return filepath.Join(d.dir, d.Parquet.Name) }

// prepare returns the data of so many rows, making it unless it is there already, complete and intact.
func prepare(o *options, rows int, progress io.Writer) (*dataset, error) {
	manifest := filepath.Join(o.dir, fmt.Sprintf("rows-%d.json", rows))
	if d, err := loadDataset(manifest); err == nil && d.Generator == generator && d.Rows == rows && d.check() == nil {
		return d, nil
	}
	fmt.Fprintf(progress, "making %d rows of data in %s\n", rows, o.dir)
	base := fmt.Sprintf("rows-%d", rows)
	d := &dataset{Generator: generator, Rows: rows, dir: o.dir, CSV: file{Name: base + ".csv"}, Parquet: file{Name: base + ".parquet"}}
	if err := writeCSV(d.csvPath(), rows); err != nil {
		return nil, err
	}
	sql := fmt.Sprintf("COPY (FROM %s) TO '%s' (FORMAT parquet)", duckdbCSV(d.csvPath()), d.parquetPath())
	if _, err := duckdb(o, sql).run(); err != nil {
		return nil, fmt.Errorf("making %s: %w", d.Parquet.Name, err)
	}
	for _, f := range []*file{&d.CSV, &d.Parquet} {
		sum, err := sumFile(filepath.Join(d.dir, f.Name))
		if err != nil {
			return nil, err
		}
		f.Size, f.CRC = sum.Size, sum.CRC
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, err
	}
	return d, os.WriteFile(manifest, append(text, '\n'), 0o666)
}

func loadDataset(manifest string) (*dataset, error) {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return nil, err
	}
	d := &dataset{dir: filepath.Dir(manifest)}
	return d, json.Unmarshal(text, d)
}

// check reports whether the files are what they were when they were made.
func (d *dataset) check() error {
	for _, f := range []file{d.CSV, d.Parquet} {
		sum, err := sumFile(filepath.Join(d.dir, f.Name))
		if err != nil {
			return err
		}
		if sum.Size != f.Size || sum.CRC != f.CRC {
			return fmt.Errorf("%s has changed", f.Name)
		}
	}
	return nil
}

func sumFile(path string) (file, error) {
	in, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer in.Close()
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.Copy(h, in)
	return file{Size: n, CRC: h.Sum32()}, err
}

func writeCSV(path string, rows int) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	w := bufio.NewWriterSize(out, 1<<20)
	w.WriteString(csvHeader + "\n")
	var line []byte
	for i := range rows {
		line = appendRow(line[:0], rowAt(i))
		w.Write(line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Close()
}
