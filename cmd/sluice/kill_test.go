package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killSpec counts rows per key and minute, joins them with the large rows of a second file, and writes
// both; what it reads is out of order, and some rows are late.
const killSpec = `<dataflow name="kill">
  <type name="Row">
    <column name="t" type="timestamp" eventtime="true"/><column name="k" type="int"/><column name="v" type="int"/>
  </type>
  <operator name="a" type="reader"><output name="rowsA" type="Row"/><param name="path" value="a*.csv"/><param name="epoch-rows" value="150"/><param name="watermark-delay" value="20s"/></operator>
  <operator name="b" type="reader"><output name="rowsB" type="Row"/><param name="path" value="b.csv"/><param name="epoch-rows" value="70"/></operator>
  <operator name="both" type="union"><input name="rowsA"/><input name="rowsB"/><output name="rows"/></operator>
  <operator name="large" type="filter"><input name="rows"/><param name="condition" value="v >= 900"/><output name="largeRows"/></operator>
  <operator name="perMinute" type="aggregate">
    <input name="rows"/>
    <param name="window" value="%s"/>
    <param name="group-by" value="k"/>
    <param name="select" value="%s"/>
    <param name="allowed-lateness" value="%s"/>
    <output name="minutes"/>
    <output name="late"/>
  </operator>
  <operator name="total" type="aggregate"><input name="largeRows"/><param name="select" value="count(*) AS n, sum(v) AS s, max(t) AS last"/><output name="totals"/></operator>
  <operator name="w1" type="writer"><input name="minutes"/><param name="path" value="minutes.csv"/></operator>
  <operator name="w2" type="writer"><input name="largeRows"/><param name="path" value="large/"/></operator>
  <operator name="w3" type="writer"><input name="totals"/><param name="path" value="total.ndjson"/></operator>
  <operator name="w4" type="writer"><input name="late"/><param name="path" value="late.csv"/></operator>
</dataflow>`

// killRows are those of each file that it reads.
const killRows = 8000

func writeKillData(t *testing.T, dir string) {
	r := rand.New(rand.NewPCG(7, 7))
	begin := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	for f, name := range []string{"a1.csv", "a2.csv", "b.csv"} {
		var b bytes.Buffer
		b.WriteString("t,k,v\n")
		for i := range killRows {
			at := begin.Add(time.Duration(f*killRows/2+i-r.IntN(40))*time.Second + 2*time.Hour)
			fmt.Fprintf(&b, "%s,%d,%d\n", at.Format(time.RFC3339), r.IntN(20), r.IntN(1000))
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// output is everything that the query has written, part files joined in order.
func killOutput(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"minutes.csv", "total.ndjson", "late.csv"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(text)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "large", "part-*"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("parts %v, error %v", parts, err)
	}
	for i, p := range parts {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, rows, ok := bytes.Cut(text, []byte("\n")); ok && i > 0 {
			text = rows // its header
		}
		out["large"] += string(text)
	}
	return out
}

// TestKill kills a durable query with SIGKILL and SIGINT again and again, at random times, and starts it
// anew. In the end everything that it has written is what an undisturbed run writes.
func TestKill(t *testing.T) {
	for name, c := range map[string]struct {
		window, sel, lateness string
		args                  []string
		anyPartitions         bool // another number in each process
	}{
		"tumbling":      {"tumbling(1m)", "window_start, k, count(*) AS n, sum(v) AS s, last(v) AS l", "0s", nil, false},
		"hopping":       {"hopping(1m, 20s)", "window_start, k, count(DISTINCT v) AS n, avg(v) AS s", "30s", nil, false},
		"session":       {"session(15s)", "window_start, window_end, k, count(*) AS n, max(v) AS s", "10s", nil, false},
		"partitioned":   {"tumbling(30s)", "window_start, k, count(*) AS n, first(v) AS s", "0s", []string{"-p", "2"}, false},
		"repartitioned": {"hopping(40s, 20s)", "window_start, k, count(*) AS n, last(v) AS s", "5s", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeKillData(t, dir)
			spec := filepath.Join(dir, "kill.xml")
			if err := os.WriteFile(spec, fmt.Appendf(nil, killSpec, c.window, c.sel, c.lateness), 0o666); err != nil {
				t.Fatal(err)
			}
			run := func(extra ...string) *exec.Cmd {
				cmd := exec.Command(os.Args[0], append(append([]string{"run", "--quiet", spec}, c.args...), extra...)...)
				cmd.Env = append(os.Environ(), "SLUICE_TEST_MAIN=1")
				return cmd
			}
			begin := time.Now()
			if text, err := run().CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			usual := time.Since(begin)
			want := killOutput(t, dir)
			if err := os.RemoveAll(filepath.Join(dir, "large")); err != nil {
				t.Fatal(err)
			}
			state := filepath.Join(dir, "state")
			kills := 0
			for process := 1; ; process++ {
				fsync := []string{"never", "grouped", "always"}[rand.IntN(3)]
				args := []string{"--state", state, "--checkpoint", "200ms", "--fsync", fsync}
				if c.anyPartitions {
					args = append(args, "-p", strconv.Itoa(1+rand.IntN(4)))
				}
				cmd := run(args...)
				var text bytes.Buffer
				cmd.Stderr = &text
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if process <= 12 {
					signal := syscall.SIGKILL
					if rand.IntN(3) == 0 {
						signal = syscall.SIGINT
					}
					time.AfterFunc(time.Duration(rand.Int64N(int64(usual))), func() { _ = cmd.Process.Signal(signal) })
				}
				err := cmd.Wait()
				if err == nil && process > 12 {
					break
				}
				if err != nil {
					kills++
					if cmd.ProcessState.Exited() {
						t.Fatalf("process %d: %v: %s", process, err, text.String())
					}
				}
			}
			got := killOutput(t, dir)
			for name := range want {
				if c.anyPartitions { // which replica's rows come first depends on their number
					got[name], want[name] = sortedLines(got[name]), sortedLines(want[name])
				}
				if got[name] != want[name] {
					t.Errorf("%s differs after %d kills: %d bytes, want %d", name, kills, len(got[name]), len(want[name]))
				}
			}
		})
	}
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
