package xmlspec_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"sluice/specs/xmlspec"
)

// TestSchema holds the XML Schema to what Parse says: it accepts every example and every good spec, and
// it refuses the bad ones but for those that the golden file marks "schema-accepts", whose mistakes a
// schema cannot know.
func TestSchema(t *testing.T) {
	xmllint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Fatal("xmllint is needed; on Debian it is in the package libxml2-utils")
	}
	schema, err := os.ReadFile("sluice.xsd")
	if err != nil || !bytes.Equal(schema, xmlspec.Schema) {
		t.Fatalf("Schema is not sluice.xsd (%v)", err)
	}
	accepts := func(file string) (bool, string) {
		out, err := exec.Command(xmllint, "--nonet", "--noout", "--schema", "sluice.xsd", file).CombinedOutput()
		return err == nil, string(out)
	}
	for _, file := range goodSpecs(t) {
		if ok, out := accepts(file); !ok {
			t.Errorf("%s is refused:\n%s", file, out)
		}
	}
	var bad []datadriven.TestData // copies: RunTest uses one for all
	datadriven.RunTest(t, "testdata/golden/bad", func(t *testing.T, d *datadriven.TestData) string {
		bad = append(bad, *d)
		return d.Expected
	})
	for _, d := range bad {
		ok, out := accepts(filepath.Join("testdata", "bad", d.Cmd))
		if ok != d.HasArg("schema-accepts") {
			t.Errorf("%s: accepted is %v:\n%s", d.Cmd, ok, out)
		}
	}
}

// goodSpecs are the examples and the good test specs.
func goodSpecs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/good/*.xml")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	err = filepath.WalkDir("../../examples", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".xml") {
			files = append(files, path)
			examples++
		}
		return err
	})
	if err != nil || examples == 0 {
		t.Fatalf("no examples found: %v", err)
	}
	return files
}
