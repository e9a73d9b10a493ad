package xmlspec_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/specs/xmlspec"
)

// repeated reads the text again and again, and counts.
type repeated struct {
	text  string
	left  int // bytes
	reads int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[r.reads%len(r.text):])
	n = min(n, r.left)
	r.left -= n
	r.reads += n
	return n, nil
}

// Whatever exceeds a bound is refused with one diagnostic, little reading and little memory.
func TestBounds(t *testing.T) {
	nest := strings.Repeat
	for _, c := range []struct{ name, text, want string }{
		{"deep", nest("<a>", 10_000) + nest("</a>", 10_000), "f:1:97: elements are nested deeper than 32"},
		{"deep and open", nest("<a>", 1_000_000), "f:1:97: elements are nested deeper than 32"},
		{"deep inside", "<dataflow>" + nest("<type>", 10_000), "f:1:197: elements are nested deeper than 32"},
		{"elements", "<dataflow>" + nest("<a/>\n", 250_000) + "</dataflow>", "f:200000:1: the spec has more than 200000 elements"},
		{"operators", "<dataflow>" + nest("<operator name='a' type='b'/>\n", 20_001) + "</dataflow>", "f:20001:1: the spec has more than 20000 operators"},
		{"attributes", "<dataflow " + nest("a='' ", 500_000) + "/>", "f:1:1: <dataflow> has more than 64 attributes"},
		{"long name", "<" + nest("a", 4_000_000) + "/>", "f:1:1: the root element of a spec is <dataflow>, not <aaa"},
		{"long value", "<dataflow name='" + nest("a", 4_000_000) + "'/>", `f:1:17: the name "aaa`},
		{"references", "<dataflow name='" + nest("&lt;", 1_000_000) + "'/>", `f:1:17: the name "<<<`},
		{"doctype", "<!DOCTYPE " + nest("<", 4_000_000), "f:1:1: not well-formed XML: the spec ends in the middle of a declaration"},
		{"entities", "<!DOCTYPE a [<!ENTITY a 'a'>" + nest("<!ENTITY b '&a;&a;'>", 1000) + "]><a>&b;</a>", "f:1:1: a spec has no document type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, diags := xmlspec.Parse("f", strings.NewReader(c.text), environment)
			runtime.ReadMemStats(&after)
			if len(diags) == 0 || !strings.HasPrefix(diags[len(diags)-1].String(), c.want) {
				t.Fatalf("got %.200s, want %s", diags.Error(), c.want)
			}
			if len(diags[0].String()) > 500 {
				t.Errorf("the diagnostic is long: %d bytes", len(diags[0].String()))
			}
			const limit = 256 << 20
			if used := after.TotalAlloc - before.TotalAlloc; used > limit {
				t.Errorf("allocated %d MiB altogether", used>>20)
			} else {
				t.Logf("allocated %d KiB altogether", used>>10)
			}
		})
	}
}

func TestLargeSpecIsNotRead(t *testing.T) {
	r := &repeated{text: "<!-- a comment in a spec of 100 MB -->\n", left: 100 << 20}
	g, diags := xmlspec.Parse("f", r, environment)
	if g != nil || diags.Error() != "f: the spec is larger than 4 MiB" {
		t.Errorf("got %v", diags)
	}
	if r.reads > xmlspec.MaxSize+1 {
		t.Errorf("%d bytes were read", r.reads)
	}
}

func TestReadError(t *testing.T) {
	r := io.MultiReader(strings.NewReader("<dataflow>"), iotest.ErrReader(errors.New("disk on fire")))
	g, diags := xmlspec.Parse("f", r, environment)
	if g != nil || diags.Error() != "f: cannot read the spec: disk on fire" {
		t.Errorf("got %v", diags)
	}
}

// The spec at the bounds is read, and variables cannot make it larger.
func TestLargestSpec(t *testing.T) {
	var b strings.Builder
	b.WriteString("<dataflow>")
	for i := range xmlspec.MaxOperators {
		fmt.Fprintf(&b, "<operator name='o%d' type='t'><param name='p' value='${BIG}'/></operator>\n", i)
	}
	b.WriteString("</dataflow>")
	big := ""
	env := func(string) (string, bool) { return big, true }
	g, diags := xmlspec.Parse("f", strings.NewReader(b.String()), env)
	if len(diags) > 0 || len(g.Operators) != xmlspec.MaxOperators {
		t.Fatalf("got %.200s", diags.Error())
	}
	big = strings.Repeat("x", 1000)
	_, diags = xmlspec.Parse("f", strings.NewReader(b.String()), env)
	if len(diags) != 1 || !strings.HasSuffix(diags[0].Message, "larger than 4 MiB altogether") || diags[0].Operator != "o4194" {
		t.Errorf("got %.300s", diags.Error())
	}
}

func TestManyMistakes(t *testing.T) {
	_, diags := xmlspec.Parse("f", strings.NewReader("<dataflow>"+strings.Repeat("<x/>\n", 100_000)+"</dataflow>"), environment)
	if len(diags) != 1000 || diags[999].String() != "f:1000:1: too many mistakes; the rest is not shown" {
		t.Errorf("%d diagnostics, the last is %v", len(diags), diags[len(diags)-1])
	}
}

// The name of standard input stands in positions as it is.
func TestStandardInput(t *testing.T) {
	g, diags := xmlspec.Parse("-", strings.NewReader("<dataflow>\n  <x/></dataflow>"), environment)
	if g.Name != "dataflow" || g.File != "-" || g.Dir != "." || diags.Error() != "-:2:3: unknown element <x> in <dataflow>" {
		t.Errorf("got %+v, %v", g, diags)
	}
}
