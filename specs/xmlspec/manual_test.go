package xmlspec_test

import (
	"os"
	"strings"
	"testing"

	"sluice/specs/xmlspec"
)

// The example with which the manual begins is a good spec.
func TestManualExample(t *testing.T) {
	manual, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	const end = "\t</dataflow>\n"
	_, example, _ := strings.Cut(string(manual), "\n\n")
	example, _, ok := strings.Cut(example, end)
	if !ok {
		t.Fatal("the manual has no example")
	}
	example = strings.ReplaceAll("\n"+example+end, "\n\t", "\n")
	g, diags := xmlspec.Parse("manual.xml", strings.NewReader(example), environment)
	if len(diags) > 0 {
		t.Fatal(diagnosticsText(diags))
	}
	if g.Name != "late-flights" || len(g.Operators) != 4 || len(g.Rewrites) != 1 || len(g.Rules) != 1 {
		t.Errorf("the example is read as\n%s", graphText(g))
	}
}
