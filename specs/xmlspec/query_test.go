package xmlspec_test

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"sluice/dataflow"
	"sluice/operators/catalog"
	"sluice/specs/xmlspec"
)

// TestQueryGolden reads each file of testdata/query, resolves it against the real operators and
// compares with testdata/resolved: all diagnostics, and the term if there are no errors.
func TestQueryGolden(t *testing.T) {
	seen := make(map[string]bool)
	datadriven.RunTest(t, "testdata/resolved/query", func(t *testing.T, d *datadriven.TestData) string {
		seen[d.Cmd] = true
		g, diags := parseFile(t, path.Join("query", d.Cmd))
		if g != nil {
			diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
			diags.Sort()
		}
		out := diagnosticsText(diags)
		if !diags.HasErrors() {
			out += g.Term(dataflow.TermOptions{})
		}
		return out
	})
	files, err := filepath.Glob("testdata/query/*.xml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no specs: %v", err)
	}
	for _, f := range files {
		if !seen[filepath.Base(f)] {
			t.Errorf("%s is not in testdata/resolved/query", f)
		}
	}
}

// The schema offers exactly the operator types that specs have a need for.
func TestSchemaOperatorTypes(t *testing.T) {
	_, part, ok := strings.Cut(string(xmlspec.Schema), `<xs:simpleType name="operatorType">`)
	if !ok {
		t.Fatal("the schema has no operatorType")
	}
	var offered []string
	for _, m := range regexp.MustCompile(`<xs:enumeration value="(.*?)"/>`).FindAllStringSubmatch(part, -1) {
		offered = append(offered, m[1])
	}
	known := slices.DeleteFunc(catalog.Operators.Types(), func(name string) bool { return catalog.Operators.Lookup(name).Added })
	if !slices.Equal(offered, known) {
		t.Errorf("the schema offers %v, known are %v", offered, known)
	}
}
