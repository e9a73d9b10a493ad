package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestRowsAreDeterministic holds the data to what it was, so that figures of different days compare.
// Who changes it must change the constant generator too.
func TestRowsAreDeterministic(t *testing.T) {
	var b []byte
	for _, i := range []int{0, 1, 999_999} {
		b = appendRow(b, rowAt(i))
	}
	const want = "7535,84.453125,site-496,2024-01-01T00:00:00Z\n5700,62.890625,site-338,2024-01-01T00:00:00Z\n" +
		"2353,11.078125,site-435,2024-01-01T00:08:19Z\n"
	if string(b) != want {
		t.Errorf("rows are\n%swant\n%s", b, want)
	}
}

func TestRowsAreAsDescribed(t *testing.T) {
	const rows = 200_000
	early := 0
	seen := map[int64]bool{}
	for i := range rows {
		r := rowAt(i)
		seen[r.key] = true
		behind := startTime + int64(i/rowsPerSecond) - r.time
		if behind < 0 || behind > maxJitter {
			t.Fatalf("row %d is %d seconds early", i, behind)
		}
		if behind > 0 {
			early++
		}
		if r.value < 0 || r.value >= 100 || r.value*64 != float64(int64(r.value*64)) {
			t.Fatalf("row %d has the value %v", i, r.value)
		}
		if r.key < 0 || r.key >= keys || r.name < 0 || r.name >= names {
			t.Fatalf("row %d is %+v", i, r)
		}
	}
	if len(seen) != keys {
		t.Errorf("%d keys, not %d", len(seen), keys)
	}
	if early < rows/40 || early > rows/12 {
		t.Errorf("%d of %d rows are early", early, rows)
	}
}

func TestDatasetNoticesChanges(t *testing.T) {
	dir := t.TempDir()
	d := &dataset{dir: dir, CSV: file{Name: "a.csv"}, Parquet: file{Name: "a.parquet"}}
	if err := writeCSV(d.csvPath(), 1000); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.parquetPath(), []byte("PAR1"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*file{&d.CSV, &d.Parquet} {
		sum, err := sumFile(filepath.Join(dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		f.Size, f.CRC = sum.Size, sum.CRC
	}
	if err := d.check(); err != nil {
		t.Fatalf("check of intact files: %v", err)
	}
	text, err := os.ReadFile(d.csvPath())
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte{'\n'}); n != 1001 {
		t.Errorf("%d lines, not 1001", n)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(d.csvPath(), text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := d.check(); err == nil {
		t.Error("check does not see a changed byte")
	}
	if err := os.Remove(d.csvPath()); err != nil {
		t.Fatal(err)
	}
	if err := d.check(); err == nil {
		t.Error("check does not see that a file is missing")
	}
}

func Example_result() {
	r := result{rows: 3_000_000}
	for _, u := range []usage{{wall: 2e9, peak: 10}, {wall: 1e9, peak: 5}, {wall: 3e9, peak: 7}} {
		r.add(u)
	}
	fmt.Println(r.best.wall, r.best.peak, r.rate())
	// Output: 1s 10 3
}
