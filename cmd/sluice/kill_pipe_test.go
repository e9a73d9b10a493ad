package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pipeSpec writes down what comes from a pipe, and counts it.
const pipeSpec = `<dataflow name="pipe">
  <type name="Row"><column name="n" type="int"/><column name="s" type="string"/></type>
  <operator name="in" type="reader"><output name="rows" type="Row"/>%s</operator>
  <operator name="all" type="writer"><input name="rows"/><param name="path" value="all.csv"/></operator>
  <operator name="total" type="aggregate"><input name="rows"/><param name="select" value="count(*) AS n, sum(n) AS s"/><output name="totals"/></operator>
  <operator name="sum" type="writer"><input name="totals"/><param name="path" value="total.csv"/></operator>
</dataflow>`

// pipeFormat is a form of what comes from a pipe.
type pipeFormat struct {
	name, params, header, row string
}

var pipeFormats = []pipeFormat{
	{"header", "", "x,s,n\n", "x%[1]d,row %[1]d,%[1]d\n"},
	{"no header", `<param name="header" value="false"/>`, "", "%[1]d,row %[1]d\n"},
	{"ndjson", `<param name="format" value="ndjson"/>`, "", `{"s":"row %[1]d","n":%[1]d}` + "\n"},
}

// pipeRun is a query that reads a pipe, which outlives the processes of the query.
type pipeRun struct {
	t      *testing.T
	dir    string
	nodes  bool
	format pipeFormat
	in     *os.File // the pipe's end for the query
	out    *os.File // the other one
	sent   int      // rows
	bytes  int64
	cmd    *exec.Cmd
	said   bytes.Buffer // by all processes
}

func newPipeRun(t *testing.T, format pipeFormat, persist, nodes bool) *pipeRun {
	r := &pipeRun{t: t, dir: t.TempDir(), nodes: nodes, format: format}
	params := format.params
	if persist {
		params += `<param name="persist" value="true"/>`
	}
	if err := os.WriteFile(filepath.Join(r.dir, "pipe.xml"), fmt.Appendf(nil, pipeSpec, params), 0o666); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.in, r.out, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.in.Close() })
	r.write(format.header)
	return r
}

// start starts a process, or several of them.
func (r *pipeRun) start() {
	args := []string{"run", "--state", r.state(), "--checkpoint", "50ms", filepath.Join(r.dir, "pipe.xml")}
	if r.nodes {
		args = append(args, "--nodes", "2")
	}
	r.cmd = command(args...)
	r.cmd.Stdin, r.cmd.Stderr = r.in, &r.said
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *pipeRun) state() string { return filepath.Join(r.dir, "state") }

func (r *pipeRun) write(text string) {
	if _, err := r.out.WriteString(text); err != nil {
		r.t.Fatal(err)
	}
	r.bytes += int64(len(text))
}

// rows writes n rows. The last write may end in the middle of one.
func (r *pipeRun) rows(n int) {
	var b strings.Builder
	for range n {
		r.sent++
		fmt.Fprintf(&b, r.format.row, r.sent)
	}
	text := b.String()
	cut := rand.IntN(len(text))
	r.write(text[:cut])
	time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	r.write(text[cut:])
}

// kept waits until the log has everything that has been written to the pipe.
func (r *pipeRun) kept() {
	for end := time.Now().Add(time.Minute); r.logged() < r.bytes; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("the log has %d bytes of %d: %s", r.logged(), r.bytes, r.said.String())
		}
	}
}

// logged is how far the log goes. One file has it all, and records have a header of 8 bytes.
func (r *pipeRun) logged() int64 {
	files, err := filepath.Glob(filepath.Join(r.state(), "inputs", "in", "input-*"))
	if err != nil || len(files) != 1 {
		return 0
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		r.t.Fatal(err)
	}
	n := int64(0)
	for len(data) >= 8 {
		size := int(data[0]) | int(data[1])<<8 | int(data[2])<<16
		if len(data) < 8+size {
			break
		}
		n += int64(size)
		data = data[8+size:]
	}
	return n
}

// kill kills a process: that of the query, or the worker that reads.
func (r *pipeRun) kill() {
	if !r.nodes {
		if err := r.cmd.Process.Kill(); err != nil {
			r.t.Fatal(err)
		}
		if err := r.cmd.Wait(); err == nil || r.cmd.ProcessState.Exited() {
			r.t.Fatalf("it ended by itself with %v: %s", err, r.said.String())
		}
		r.start()
		return
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		pids := workersOf(r.state())
		rand.Shuffle(len(pids), func(i, j int) { pids[i], pids[j] = pids[j], pids[i] })
		for _, pid := range pids {
			if r.reads(pid) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				return
			}
		}
		if time.Now().After(end) {
			r.t.Fatalf("no worker reads: %s", r.said.String())
		}
	}
}

// reads reports whether a process has the log open, or where there is none, runs.
func (r *pipeRun) reads(pid int) bool {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || !exists(filepath.Join(r.state(), "inputs")) {
		return err == nil && running(pid)
	}
	return slices.ContainsFunc(fds, func(fd string) bool {
		to, _ := os.Readlink(fd)
		return strings.HasPrefix(to, filepath.Join(r.state(), "inputs"))
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// finish ends the input and the query, and returns the rows that were written.
func (r *pipeRun) finish() []string {
	r.t.Helper()
	if err := r.out.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Fatalf("%v: %s", err, r.said.String())
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "all.csv"))
	if err != nil {
		r.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return lines[1:]
}

// TestKillKeptPipe kills the processes of queries that keep what they read from a pipe. What they write is what an
// undisturbed query writes.
func TestKillKeptPipe(t *testing.T) {
	for _, format := range pipeFormats {
		for _, nodes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, nodes %v", format.name, nodes), func(t *testing.T) {
				r := newPipeRun(t, format, true, nodes)
				r.start()
				for range 6 {
					for range 1 + rand.IntN(10) {
						r.rows(1 + rand.IntN(300))
						r.kept()
					}
					time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
					r.kill()
				}
				r.rows(100)
				got := r.finish()
				if len(got) != r.sent {
					t.Errorf("%d rows, want %d: %s", len(got), r.sent, r.said.String())
				}
				sum := 0
				for i, row := range got {
					if want := fmt.Sprintf("%d,row %d", i+1, i+1); row != want {
						t.Fatalf("row %q, want %q", row, want)
					}
					sum += i + 1
				}
				total, err := os.ReadFile(filepath.Join(r.dir, "total.csv"))
				if want := fmt.Sprintf("n,s\n%d,%d\n", r.sent, sum); err != nil || string(total) != want {
					t.Errorf("total %q and %v, want %q", total, err, want)
				}
				if strings.Contains(r.said.String(), "warning: operator") {
					t.Errorf("it is said that rows are missing: %s", r.said.String())
				}
			})
		}
	}
}

// TestKillPipe kills the processes of queries that do not keep what they read from a pipe, at any time. Every row that
// they write is one that was read, and comes once; that some are missing is told.
func TestKillPipe(t *testing.T) {
	for _, format := range pipeFormats {
		for _, nodes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, nodes %v", format.name, nodes), func(t *testing.T) {
				r := newPipeRun(t, format, false, nodes)
				r.start()
				// The header is in the state once rows have been written.
				for begin := time.Now(); fileSize(filepath.Join(r.dir, "all.csv")) < 10 && time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
					r.rows(1)
				}
				for range 5 {
					stop, over := make(chan bool), make(chan bool)
					go func() {
						defer close(over)
						for {
							select {
							case <-stop:
								return
							default:
								r.rows(1 + rand.IntN(100))
							}
						}
					}()
					time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
					r.kill()
					close(stop)
					<-over
				}
				r.rows(100)
				got := r.finish()
				last := 0
				for _, row := range got {
					var n, again int
					if _, err := fmt.Sscanf(row, "%d,row %d", &n, &again); err != nil || row != fmt.Sprintf("%d,row %d", n, n) || n <= last {
						t.Fatalf("row %q behind that of %d", row, last)
					}
					last = n
				}
				t.Logf("%d rows of %d: %s", len(got), r.sent, r.said.String())
				if last != r.sent {
					t.Errorf("the last row is %d, want %d", last, r.sent)
				}
				if !nodes && len(got) < r.sent && !strings.Contains(r.said.String(), "is missing") {
					t.Errorf("%d rows of %d, which is not told: %s", len(got), r.sent, r.said.String())
				}
			})
		}
	}
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// TestKillInsideHeader: with a log it does not matter what of the header has been read when the process dies.
func TestKillInsideHeader(t *testing.T) {
	r := newPipeRun(t, pipeFormat{"", "", "x,", "x%[1]d,row %[1]d,%[1]d\n"}, true, false)
	r.start()
	r.kept()
	r.kill()
	r.write("s,n\n")
	r.rows(10)
	r.kept()
	r.kill()
	if got := r.finish(); len(got) != r.sent {
		t.Errorf("%q", got)
	}
}
