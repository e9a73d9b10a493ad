package xmlspec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/beevik/etree"

	"sluice/dataflow"
)

// FuzzParse holds Parse to what it promises of any input: no panic; either a graph or one diagnostic;
// places that are in the source; and values that etree reads the same way.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.xml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		env := func(name string) (string, bool) { return strings.ToLower(name), len(name)%2 == 0 }
		g, diags := Parse("f", strings.NewReader(string(data)), env)
		if g == nil && (len(diags) == 0 || !diags.HasErrors()) {
			t.Fatal("neither a graph nor an error")
		}
		src := newSource("f", []byte(strings.TrimPrefix(string(data), "\xef\xbb\xbf")))
		for _, d := range diags {
			if d.Pos.Line != 0 {
				checkPlace(t, src, d.Pos)
			}
		}
		if g == nil {
			return
		}
		for _, op := range g.Operators {
			for _, p := range op.Params {
				checkParam(t, src, p)
			}
		}
		checkDecoding(t, src)
	})
}

func checkPlace(t *testing.T, src *source, pos dataflow.Pos) {
	lines := splitLines(string(src.data))
	if pos.Line < 1 || pos.Line > len(lines) || pos.Col < 1 || pos.Col > utf8.RuneCountInString(lines[pos.Line-1])+1 {
		t.Fatalf("there is no place %v in %q", pos, src.data)
	}
}

// splitLines cuts after "\n", "\r\n" and a lone "\r".
func splitLines(text string) []string {
	return strings.Split(strings.NewReplacer("\r\n", " \n", "\r", "\n").Replace(text), "\n")
}

func checkParam(t *testing.T, src *source, p dataflow.Param) {
	if p.Name == "" {
		return
	}
	for i := 0; i <= len(p.Value); i++ {
		checkPlace(t, src, p.Text.At(p.Value, i))
	}
}

// checkDecoding compares each attribute and text with what etree says.
func checkDecoding(t *testing.T, src *source) {
	marks, end, f := scan(src)
	if f != nil {
		t.Fatalf("scan: %v", f)
	}
	top, err := document(src, marks, end)
	if err != nil {
		t.Fatalf("etree refuses what the scan accepts: %v in %q", err, src.data)
	}
	spaces := strings.NewReplacer("\n", " ", "\t", " ")
	var walk func(n *node)
	walk = func(n *node) {
		if !strings.HasPrefix(string(src.data[n.start:]), "<"+n.el.FullTag()) {
			t.Fatalf("<%s> is not at %v", n.el.FullTag(), src.pos(n.start))
		}
		for i, a := range n.attributes(src) {
			if want := n.el.Attr[i]; a.name != want.FullKey() || spaces.Replace(a.value.value) != spaces.Replace(want.Value) {
				t.Fatalf("attribute %s = %q, etree has %s = %q", a.name, a.value.value, want.FullKey(), want.Value)
			}
		}
		var want strings.Builder
		for _, c := range n.el.Child {
			if c, ok := c.(*etree.CharData); ok {
				want.WriteString(c.Data)
			}
		}
		d := newValueDecoder(src)
		for _, m := range n.texts {
			d.charData(m.start, m.end)
		}
		if got := d.text().value; got != want.String() {
			t.Fatalf("text is %q, etree has %q", got, want.String())
		}
		for _, c := range n.children {
			walk(c)
		}
	}
	walk(top)
}
