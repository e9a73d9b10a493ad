package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-rows", "10", "-n", "2", "-only", "CSV", "-peers", "duck", "-data", "d"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rows != 10 || o.repeats != 2 || o.only.MatchString("Parquet project") || !o.peers.MatchString("duckdb") {
		t.Errorf("options are %+v", o)
	}
	if !filepath.IsAbs(o.dir) || !filepath.IsAbs(o.sluice) {
		t.Errorf("paths are %q and %q, which children could not find", o.dir, o.sluice)
	}
	for _, args := range [][]string{{"-rows", "0"}, {"-n", "0"}, {"-only", "("}, {"-peers", "("}, {"more"}, {"-no-such-flag"}} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestPrintResults(t *testing.T) {
	var b strings.Builder
	printResults(&b, []result{
		{job: "one", peer: "sluice", rows: 2e6, best: usage{wall: 1e9, cpu: 2e9, peak: 30e6}},
		{job: "one", peer: "mawk", rows: 2e6, best: usage{wall: 4e9, cpu: 4e9, peak: 5e6}},
		{job: "two", peer: "sluice", rows: 2e6, best: usage{wall: 2e9, cpu: 2e9}},
	})
	const want = `
  job  program  wall s  CPU s  M rows/s  peak MB  time / Sluice's
  one   sluice   1.000  2.000      2.00       30             1.00
          mawk   4.000  4.000      0.50        5             4.00
  two   sluice   2.000  2.000      1.00        -             1.00
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}
