package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/scheduler/api"
)

// client runs a command for the scheduler and returns what it prints.
func (s *testScheduler) client(status int, args ...string) (out, errs string) {
	s.t.Helper()
	var o, e bytes.Buffer
	args = append(args, "--scheduler", s.url)
	if got := run(args, streams{strings.NewReader(""), &o, &e}); got != status {
		s.t.Fatalf("sluice %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), got, status, &o, &e)
	}
	return o.String(), e.String()
}

const followed = `<dataflow name="followed">
  <type name="R"><column name="a" type="int"/></type>
  <operator name="source" type="reader"><output name="rows" type="R"/><param name="path" value="in.csv"/><param name="follow" value="true"/></operator>
  <operator name="f" type="filter"><input name="rows"/><param name="condition" value="a > 1"/><output name="some"/></operator>
  <operator name="sink" type="writer"><input name="some"/><param name="path" value="out.csv"/></operator>
</dataflow>
`

// TestClients: a query is submitted, looked at, changed and drained; what is wrong has the exit status and
// the words that validate has.
func TestClients(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return path
	}
	spec := write("followed.xml", followed)
	write("in.csv", "a\n1\n2\n")
	s := startScheduler(t, filepath.Join(dir, "root"))

	if out, _ := s.client(exitDone, "submit", spec, "--workers", "2"); out != "followed\n" {
		t.Errorf("submit prints %q", out)
	}
	_, errs := s.client(exitUsage, "submit", spec)
	if !strings.Contains(errs, `"followed"`) {
		t.Errorf("submit of a query that runs: %s", errs)
	}
	bad := write("bad.xml", strings.Replace(followed, "a > 1", "aa > 1", 1))
	if _, errs = s.client(exitUsage, "submit", bad); !strings.HasPrefix(errs, bad+":4:87: ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("submit of a spec that is wrong: %s", errs)
	}

	rows := func(want string) {
		t.Helper()
		var got []byte
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && string(got) != want; time.Sleep(10 * time.Millisecond) {
			got, _ = os.ReadFile(filepath.Join(dir, "out.csv"))
		}
		if string(got) != want {
			t.Fatalf("out.csv has %q, want %q", got, want)
		}
	}
	rows("a\n2\n")
	if out, _ := s.client(exitDone, "list"); !strings.Contains(out, "followed  running  ") {
		t.Errorf("list prints\n%s", out)
	}
	if out, _ := s.client(exitDone, "status", "followed"); !strings.Contains(out, "query followed: running") || !strings.Contains(out, "source") {
		t.Errorf("status prints\n%s", out)
	}
	var q api.Query
	out, _ := s.client(exitDone, "status", "followed", "--format", "json")
	if err := json.Unmarshal([]byte(out), &q); err != nil || len(q.Processes) != 2 {
		t.Errorf("status as JSON: %v, %d workers\n%s", err, len(q.Processes), out)
	}

	var epoch int64
	out, _ = s.client(exitDone, "set", "followed", "f", "condition", "a > 5")
	if _, err := fmt.Sscanf(out, "from epoch %d", &epoch); err != nil {
		t.Errorf("set prints %q", out)
	}
	if _, errs = s.client(exitUsage, "set", "followed", "f", "condition", "b > 5"); !strings.Contains(errs, `unknown column "b"`) {
		t.Errorf("set of a wrong condition: %s", errs)
	}
	s.client(exitUsage, "set", "other", "f", "condition", "a > 5")
	s.pastEpoch("followed", epoch)
	write("in.csv", "3\n7\n")
	rows("a\n2\n7\n")
	s.client(exitDone, "drain", "followed", "--wait")
	if out, _ = s.client(exitDone, "status", "followed"); !strings.Contains(out, "query followed: finished") {
		t.Errorf("status of a query that was drained:\n%s", out)
	}
	s.client(exitUsage, "cancel", "other")

	if out, _ = s.client(exitDone, "rules"); !strings.Contains(out, "hot-standby") {
		t.Errorf("rules prints\n%s", out)
	}
	if out, _ = s.client(exitDone, "rules", "hot-standby"); !strings.Contains(out, "rule hot-standby") {
		t.Errorf("rules hot-standby prints\n%s", out)
	}
	s.client(exitUsage, "rules", "hot")
}

// TestClientsWithout: without a scheduler the commands say so.
func TestClientsWithout(t *testing.T) {
	for _, c := range []struct {
		status int
		args   []string
	}{
		{exitFailed, []string{"list", "--scheduler", "http://127.0.0.1:1"}},
		{exitUsage, []string{"list", "--scheduler", "127.0.0.1:1"}},
		{exitUsage, []string{"list", "--token", "no-such-file"}},
		{exitUsage, []string{"list", "--ca", "no-such-file"}},
	} {
		var o, e bytes.Buffer
		if got := run(c.args, streams{strings.NewReader(""), &o, &e}); got != c.status || e.Len() == 0 {
			t.Errorf("sluice %s: exit status %d, want %d; %s", strings.Join(c.args, " "), got, c.status, &e)
		}
	}
}
