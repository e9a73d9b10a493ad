package realtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// parquetSpec turns the part files of "hopping" into CSV.
const parquetSpec = `<dataflow name="convert"><type name="Window"><column name="window_start" type="timestamp"/><column name="k" type="int"/><column name="n" type="int"/><column name="d" type="int"/><column name="l" type="int"/></type>
<operator name="r" type="reader"><output name="rows" type="Window"/><param name="path" value="%s"/></operator>
<operator name="w" type="writer"><input name="rows"/></operator></dataflow>`

// readParquet reads the part files of "hopping", as lines of CSV.
func readParquet(t *testing.T, pattern string) []string {
	t.Helper()
	spec := filepath.Join(t.TempDir(), "convert.xml")
	if err := os.WriteFile(spec, fmt.Appendf(nil, parquetSpec, pattern), 0o666); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(program, "run", "--quiet", spec)
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("reading %s: %v: %s", pattern, err, said.String())
	}
	return slices.Collect(strings.Lines(string(text)))[1:]
}
