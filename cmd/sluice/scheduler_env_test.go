package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/scheduler/api"
)

// envSpec copies the input of a day.
const envSpec = `<dataflow name="env"><type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="rows" type="R"/><param name="path" value="in-${DAY}.csv"/></operator>
  <operator name="out" type="writer"><input name="rows"/><param name="path" value="out-${DAY}${SLUICE_TEST_SUFFIX:-}.csv"/></operator></dataflow>`

// TestSchedulerVariables: the variables of a spec are those of who submits it, and never the scheduler's.
func TestSchedulerVariables(t *testing.T) {
	dir := t.TempDir()
	spec := filepath.Join(dir, "env.xml")
	for path, text := range map[string]string{spec: envSpec, filepath.Join(dir, "in-6.csv"): "a\n6\n", filepath.Join(dir, "in-7.csv"): "a\n7\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := command("scheduler", "--state-root", t.TempDir(), "--listen", "127.0.0.1:0", "--cluster", "local:2")
	cmd.Env = append(cmd.Env, "DAY=6", "SLUICE_TEST_SUFFIX=-of-the-scheduler")
	s := runScheduler(t, cmd)

	var f api.Failure
	if status := s.call("POST", "/queries", api.Submission{Spec: envSpec, Dir: dir, File: "env.xml"}, &f); status != http.StatusUnprocessableEntity ||
		len(f.Error.Diagnostics) != 2 || f.Error.Diagnostics[0].Line != 2 || !strings.HasPrefix(f.Error.Diagnostics[0].Message, "environment variable DAY is not set") {
		t.Errorf("status %d, %+v", status, f)
	}
	if _, errs := s.client(exitUsage, "submit", spec); !strings.HasPrefix(errs, spec+":2:") || strings.Count(errs, "environment variable DAY is not set") != 2 {
		t.Errorf("submit without the variable: %s", errs)
	}
	for flag, want := range map[string]string{"DAY": "NAME=VALUE", "DYA=7": "no variable ${DYA}"} {
		if _, errs := s.client(exitUsage, "submit", spec, "--env", flag); !strings.Contains(errs, want) {
			t.Errorf("submit --env %s: %s", flag, errs)
		}
	}

	s.client(exitDone, "submit", spec, "--wait", "--env", "DAY=7")
	t.Setenv("DAY", "6")
	s.client(exitDone, "submit", spec, "--wait", "--name", "of-the-environment")
	for _, day := range []string{"6", "7"} {
		if got, err := os.ReadFile(filepath.Join(dir, "out-"+day+".csv")); err != nil || string(got) != "a\n"+day+"\n" {
			t.Errorf("day %s: %q, error %v", day, got, err)
		}
	}
	var sub api.Submission
	if s.call("GET", "/queries/env/submission", nil, &sub); sub.Spec != envSpec || len(sub.Env) != 1 || sub.Env["DAY"] != "7" {
		t.Errorf("%+v", sub)
	}
	if out, _ := s.client(exitDone, "show", "env"); out != envSpec+"\n" {
		t.Errorf("show prints %s", out)
	}
	if out, _ := s.client(exitDone, "show", "env", "--format", "json"); !strings.Contains(out, `"DAY": "7"`) {
		t.Errorf("show prints %s", out)
	}
}
