// Command bench measures Sluice against the programs that a user would otherwise reach for, and the
// engine alone against hand-written loops, and queries on several processes against those on one. It prints
// one table of speed and three of other figures, all measured in one run. `bench cluster` measures only what
// concerns several processes, `bench service` only the scheduler of a cluster, `bench parallel` only what a second
// replica gains. See docs/benchmarks.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// options are the command line.
type options struct {
	rows    int
	repeats int
	only    *regexp.Regexp // jobs
	peers   *regexp.Regexp
	large   bool
	alone   string // the only part measured, one of aloneParts; "" for all
	profile string
	dir     string // where data and outputs are kept
	sluice  string // the program measured
	duckdb  string // the program that runs DuckDB, built by buildDuckDB
}

// largeFactor is how many times larger the data is in which memory must stay flat.
const largeFactor = 4

// aloneParts are those that can be named to be measured alone.
var aloneParts = map[string]func(o *options, out, progress io.Writer) error{
	"cluster": runCluster, "service": runService, "parallel": runParallel,
}

// roles are what the program runs itself as, by its first argument.
var roles = map[string]func(role string, args []string) error{
	rawSender: runRaw, rawReceiver: runRaw, mesosMasters: runMesos, mesosFramework: runMesos,
}

func main() {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := roles[os.Args[1]](os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	measure := run
	if o.alone != "" {
		measure = aloneParts[o.alone]
	}
	if err := measure(o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	var only, peers string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rows, "rows", 5_000_000, "rows of the data")
	f.IntVar(&o.repeats, "n", 3, "how often each job runs; the best is shown")
	f.StringVar(&only, "only", "", "regular expression: only the jobs whose name matches")
	f.StringVar(&peers, "peers", "", "regular expression: only the programs whose name matches, and sluice")
	f.BoolVar(&o.large, "large", false, fmt.Sprintf("also run Sluice on %d times as many rows, to see that its memory stays flat", largeFactor))
	f.StringVar(&o.profile, "cpuprofile", "", "measure nothing; run Sluice's side of the jobs in this process and write a CPU profile to this file")
	f.StringVar(&o.dir, "data", "data", "folder for data and outputs")
	f.StringVar(&o.sluice, "sluice", "../bin/sluice", "the sluice program")
	if len(args) > 0 && aloneParts[args[0]] != nil {
		o.alone, args = args[0], args[1:]
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if o.rows < 1 || o.repeats < 1 {
		return nil, errors.New("-rows and -n must be at least 1")
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	if o.peers, err = regexp.Compile(peers); err != nil {
		return nil, fmt.Errorf("-peers: %w", err)
	}
	for _, path := range []*string{&o.dir, &o.sluice} {
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// run measures everything that is asked for. The programs come before what runs in this process,
// because a child's peak memory is counted from what this process has when it starts the child.
func run(o *options, out, progress io.Writer) error {
	if err := os.MkdirAll(o.dir, 0o777); err != nil {
		return err
	}
	var err error
	if o.duckdb, err = buildDuckDB(o.dir); err != nil {
		return err
	}
	data, err := prepare(o, o.rows, progress)
	if err != nil {
		return err
	}
	if o.profile != "" {
		return profile(o, data, progress)
	}
	if _, err := os.Stat(o.sluice); err != nil {
		return fmt.Errorf("%w; make build makes it", err)
	}
	describe(out, o, data)
	results, wrong, err := measurePrograms(o, data, progress)
	if err != nil {
		return err
	}
	clusterResults, clusterFigures, err := measureCluster(o, progress)
	if err != nil {
		return err
	}
	serviceFigures, err := measureService(o, progress)
	if err != nil {
		return err
	}
	figures, err := programMemory(o, results, progress)
	if err != nil {
		return err
	}
	engineResults, engineFigures, err := measureEngine(o, progress)
	if err != nil {
		return err
	}
	routeFigures, err := measureRoutes(o, progress)
	if err != nil {
		return err
	}
	parallelFigures, err := measureParallel(o, data, progress)
	if err != nil {
		return err
	}
	own, err := engineMemory(o, data)
	if err != nil {
		return err
	}
	printResults(out, slices.Concat(results, engineResults, clusterResults))
	printFigures(out, "memory", slices.Concat(figures, engineFigures, routeFigures, parallelFigures, own))
	printFigures(out, "cluster", clusterFigures)
	printFigures(out, "service", serviceFigures)
	return wrong
}

// describe says what is measured on what.
func describe(w io.Writer, o *options, d *dataset) {
	fmt.Fprintf(w, "%s, %d cores; %s, %d rows: CSV %.0f MB, Parquet %.0f MB; best of %d\n", processor(), runtime.NumCPU(),
		runtime.Version(), d.Rows, float64(d.CSV.Size)/1e6, float64(d.Parquet.Size)/1e6, o.repeats)
	for _, version := range [][]string{{"mlr", "--version"}, {"mawk", "-W", "version"}, {o.duckdb, "-version"}} {
		text, err := exec.Command(version[0], version[1:]...).CombinedOutput()
		if err != nil {
			fmt.Fprintf(w, "%s: %v\n", filepath.Base(version[0]), err)
			continue
		}
		line, _, _ := strings.Cut(string(text), "\n")
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
}

// processor is the model of the processor.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return runtime.GOARCH
}
