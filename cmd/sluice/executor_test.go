package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/executor/mesos"
	"sluice/executor/worker"
	"sluice/metaquery"
)

// TestRefusals: a worker that cannot compile a query says whether another one could.
func TestRefusals(t *testing.T) {
	const spec = `<dataflow name="q">RULES<type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="s" type="R"/><param name="path" value="in.csv"/></operator>
  <operator name="f" type="filter"><input name="s"/><param name="condition" value="CONDITION"/><output name="o"/></operator>
  <operator name="out" type="writer"><input name="o"/><param name="path" value="out.csv"/></operator></dataflow>`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad.rules"), []byte("no rule"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		rules, condition string
		want             string
		everywhere       bool
	}{
		"wrong spec":    {"", "b > 1", `unknown column "b"`, true},
		"missing rules": {`<rules href="missing.rules"/>`, "a > 1", "missing.rules", false},
		"wrong rules":   {`<rules href="bad.rules"/>`, "a > 1", "bad.rules", false},
		"another graph": {"", "a > 1", "is not what it was when the query began", false},
	} {
		text := strings.NewReplacer("RULES", x.rules, "CONDITION", strings.ReplaceAll(x.condition, ">", "&gt;")).Replace(spec)
		e := &executorProcess{id: "w1"}
		_, err := e.compile(&metaquery.Deploy{Spec: []byte(text), File: "q.xml", Dir: dir, Partitions: 1, Nodes: 1, Graph: "another"})
		var everywhere *worker.EverywhereError
		if err == nil || !strings.Contains(err.Error(), x.want) || errors.As(err, &everywhere) != x.everywhere {
			t.Errorf("%s: error %v", name, err)
		}
	}
	var everywhere *worker.EverywhereError
	if _, err := addressOn(&mesos.Launch{Host: "10.0.0.1"}, "ipc"); !errors.As(err, &everywhere) {
		t.Errorf("rows by ipc between machines: error %v", err)
	}
}
