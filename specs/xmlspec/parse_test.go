package xmlspec_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"sluice/dataflow"
	"sluice/specs/xmlspec"
)

// environment is what the test specs see.
func environment(name string) (string, bool) {
	value, ok := map[string]string{"SET": "set dir", "EMPTY": "", "lower": "l"}[name]
	return value, ok
}

// TestParseGolden reads each file of testdata/bad and testdata/good and compares with testdata/golden
// what comes of it: diagnostics, and for good specs the graph. "go test -rewrite" writes the files.
func TestParseGolden(t *testing.T) {
	seen := make(map[string]bool)
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, file string) {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			name := path.Join(path.Base(file), d.Cmd)
			seen[name] = true
			g, diags := parseFile(t, name)
			out := diagnosticsText(diags)
			if strings.HasPrefix(name, "good/") {
				out += graphText(g)
			}
			return out
		})
	})
	for _, name := range specFiles(t) {
		if !seen[name] {
			t.Errorf("testdata/%s is in no golden file", name)
		}
	}
}

// specFiles are the good and bad specs of testdata, as "bad/x.xml".
func specFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"bad", "good"} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.xml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s specs: %v", dir, err)
		}
		for _, f := range files {
			names = append(names, path.Join(dir, filepath.Base(f)))
		}
	}
	return names
}

// parseFile parses a file of testdata under the given name.
func parseFile(t *testing.T, name string) (*dataflow.Graph, dataflow.Diagnostics) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return xmlspec.Parse(name, f, environment)
}

func diagnosticsText(ds dataflow.Diagnostics) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintln(&b, d)
	}
	return b.String()
}

// graphText is everything that Parse found.
func graphText(g *dataflow.Graph) string {
	if g == nil {
		return "no graph\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v dataflow %q in %s\n", g.Pos, g.Name, g.Dir)
	for _, t := range g.Types {
		fmt.Fprintf(&b, "%v type %q %v\n", t.Pos, t.Name, &t.Schema)
	}
	for _, op := range g.Operators {
		fmt.Fprintf(&b, "%v operator %q %q\n", op.Pos, op.Name, op.Type)
		for _, in := range op.Inputs {
			fmt.Fprintf(&b, "  %v input %q\n", in.Pos, in.Stream)
		}
		for _, out := range op.Outputs {
			fmt.Fprintf(&b, "  %v output %q type %q port %q\n", out.Pos, out.Stream, out.Type, out.Port)
		}
		paramsText(&b, op.Params)
		if !op.Resources.IsZero() {
			fmt.Fprintf(&b, "  needs %v\n", op.Resources)
		}
	}
	for _, rw := range g.Rewrites {
		fmt.Fprintf(&b, "%v rewrite %q operator %q\n", rw.Pos, rw.Rule, rw.Operator)
		paramsText(&b, rw.Params)
	}
	for _, r := range g.Rules {
		fmt.Fprintf(&b, "%v rules %q\n", r.Pos, r.Href)
	}
	return b.String()
}

func paramsText(b *strings.Builder, params []dataflow.Param) {
	for _, p := range params {
		fmt.Fprintf(b, "  %v param %q = %q\n", p.Pos, p.Name, p.Value)
		for _, s := range p.Text {
			fixed := ""
			if s.Fixed {
				fixed = " fixed"
			}
			fmt.Fprintf(b, "    %d: %v%s\n", s.Offset, s.Pos, fixed)
		}
	}
}
