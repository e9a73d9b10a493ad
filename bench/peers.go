package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// command is one program with its arguments, which writes to the file at stdout if that is set.
type command struct {
	args   []string
	stdout string
}

// usage is what a run cost.
type usage struct {
	wall, cpu time.Duration // cpu: user and system
	peak      int64         // bytes resident at most, as the kernel counts them
}

// run runs c to its end.
func (c command) run() (usage, error) {
	// The kernel counts into a child's peak what its parent had when it made the child; so give back
	// first what this process does not need.
	debug.FreeOSMemory()
	resetPeak()
	cmd := exec.Command(c.args[0], c.args[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if c.stdout != "" {
		out, err := os.Create(c.stdout)
		if err != nil {
			return usage{}, err
		}
		defer out.Close()
		cmd.Stdout = out
	}
	begin := time.Now()
	err := cmd.Run()
	u := usage{wall: time.Since(begin)}
	if err != nil {
		return u, fmt.Errorf("%s: %w: %s", filepath.Base(c.args[0]), err, strings.TrimSpace(stderr.String()))
	}
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.peak = r.Maxrss << 10
	}
	return u, nil
}

// resetPeak makes the kernel forget this process's peak memory. Where it cannot, the peaks of small
// children are too large, but none is too small.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// buildDuckDB builds the program that runs DuckDB and returns its path.
func buildDuckDB(dir string) (string, error) {
	path := filepath.Join(dir, "duckdb")
	out, err := exec.Command("go", "build", "-o", path, "./duckdb").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the program that runs DuckDB: %w: %s", err, bytes.TrimSpace(out))
	}
	return path, nil
}

// sluice is the command that runs a spec of the folder specs.
func sluice(o *options, spec, in, out string) command {
	return command{args: []string{o.sluice, "run", "--quiet", "--set", "source.path=" + in, "--set", "sink.path=" + out, specPath(spec)}}
}

func specPath(name string) string { return filepath.Join("specs", name+".xml") }

// duckdb is the command that runs one statement.
func duckdb(o *options, sql string) command {
	return command{args: []string{o.duckdb, "-threads", fmt.Sprint(runtime.NumCPU()), sql}}
}

// duckdbCSV is the table that a CSV file of the benchmark is in DuckDB, read as fast as it can.
func duckdbCSV(path string) string {
	return fmt.Sprintf("read_csv('%s', header = true, auto_detect = false, delim = ',', quote = '\"', "+
		"columns = {'key': 'BIGINT', 'value': 'DOUBLE', 'name': 'VARCHAR', 'ts': 'TIMESTAMP'})", path)
}

// duckdbCopy is the statement that writes a query's rows as CSV in the form in which Sluice does.
func duckdbCopy(query, out string) string {
	return fmt.Sprintf("COPY (%s) TO '%s' (FORMAT csv, HEADER, TIMESTAMPFORMAT '%%Y-%%m-%%dT%%H:%%M:%%SZ')", query, out)
}

// mawk is the command that runs a program over a CSV file without quotes.
func mawk(program, in, out string) command {
	return command{args: []string{"mawk", program, in}, stdout: out}
}

// miller is the command that runs a chain of verbs from CSV to CSV.
func miller(verbs []string, in, out string) command {
	return command{args: append(append([]string{"mlr", "--icsv", "--ocsv"}, verbs...), in), stdout: out}
}
