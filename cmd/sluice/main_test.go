package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/operators/catalog"
	"sluice/operators/expr"
)

func TestMain(m *testing.M) {
	if os.Getenv("SLUICE_TEST_MAIN") != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"sluice": main})
}

// TestScripts runs the command-line tests of testdata/script. With UPDATE=1 it rewrites what they
// compare files with.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// TestExamples runs every example and compares what it prints with expected.csv beside it.
func TestExamples(t *testing.T) {
	specs, err := filepath.Glob("../../examples/*/*.xml")
	if err != nil || len(specs) < 2 {
		t.Fatalf("found examples %v, error %v", specs, err)
	}
	for _, spec := range specs {
		t.Run(filepath.Base(spec), func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(filepath.Dir(spec), "expected.csv"))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], "run", "--quiet", spec)
			cmd.Env = append(os.Environ(), "SLUICE_TEST_MAIN=1")
			got, err := cmd.Output()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("error %v, output:\n%s", err, got)
			}
		})
	}
}

// TestReferencesAreCurrent compares the pages of docs/ that are made from the program with what it says.
// With UPDATE=1 it rewrites them.
func TestReferencesAreCurrent(t *testing.T) {
	for name, want := range map[string][]byte{
		"operators.md": operatorReference(catalog.Descriptors()),
		"functions.md": functionReference(expr.Functions()),
	} {
		path := filepath.Join("..", "..", "docs", name)
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(path, want, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what the program says (%v); UPDATE=1 go test ./cmd/sluice rewrites it", name, err)
		}
	}
}
