package xmlspec_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/specs/xmlspec"
)

// page writes source text and keeps track of the line and column, without looking at xmlspec.
type page struct {
	strings.Builder
	line, col int
}

func (p *page) write(text string) {
	p.WriteString(text)
	for i, r := range text {
		switch {
		case r == '\n', r == '\r' && !strings.HasPrefix(text[i:], "\r\n"):
			p.line++
			p.col = 1
		default:
			p.col++
		}
	}
}

// writtenValue is the value that a reader should find, and where each byte of it stands.
type writtenValue struct {
	value  strings.Builder
	places []dataflow.Pos
}

func (w *writtenValue) add(char string, at dataflow.Pos) {
	w.value.WriteString(char)
	for range len(char) {
		w.places = append(w.places, at)
	}
}

// writeChar writes one character in one of the ways in which XML allows it.
func writeChar(t *rapid.T, p *page, w *writtenValue, r rune, attribute bool) {
	at := dataflow.Pos{File: "f", Line: p.line, Col: p.col}
	w2 := string(r)
	switch way := rapid.IntRange(0, 9).Draw(t, "way"); {
	case way == 0:
		p.write(fmt.Sprintf("&#%d;", r))
	case way == 1:
		p.write(fmt.Sprintf("&#x%X;", r))
	case way == 2 && !attribute && r != '\r':
		p.write("<![CDATA[")
		at.Col = p.col
		p.write(string(r))
		p.write("]]>")
	case r == '\n':
		p.write(rapid.SampledFrom([]string{"\n", "\r\n", "\r "}).Draw(t, "line end"))
		if strings.HasSuffix(p.String(), "\r ") { // the space keeps it from meeting a "\n"
			w.add(lineEnd(attribute), at)
			w.add(" ", dataflow.Pos{File: "f", Line: p.line, Col: p.col - 1})
			return
		}
		w2 = lineEnd(attribute)
	case r == '\t' && attribute:
		p.write("\t")
		w2 = " "
	case strings.ContainsRune("<>&'\"\r", r):
		p.write(map[rune]string{'<': "&lt;", '>': "&gt;", '&': "&amp;", '\'': "&apos;", '"': "&quot;", '\r': "&#13;"}[r])
	default:
		p.write(string(r))
	}
	w.add(w2, at)
}

func lineEnd(attribute bool) string {
	if attribute {
		return " "
	}
	return "\n"
}

// Every byte of a value is mapped to where it was written, however it was written.
func TestPlaces(t *testing.T) {
	chars := []rune("ab <>&'\"\n\r\tüЖ€😀]-{}=")
	rapid.Check(t, func(t *rapid.T) {
		p := &page{line: 1, col: 1}
		attribute := rapid.Bool().Draw(t, "attribute")
		p.write(rapid.SampledFrom([]string{"", "<!--\n\n-->", "<?x ü?>\r\n"}).Draw(t, "before"))
		p.write(`<dataflow name="q"><operator name="o" type="t">`)
		w := &writtenValue{}
		if attribute {
			p.write(`<param name="p" value="`)
		} else {
			p.write(`<param name="p">` + rapid.SampledFrom([]string{"", " ", "\n\t", "\r\n "}).Draw(t, "space"))
			w.add("x", dataflow.Pos{File: "f", Line: p.line, Col: p.col}) // no space, so that nothing is trimmed
			p.write("x")
		}
		for range rapid.IntRange(0, 12).Draw(t, "pieces") {
			at := dataflow.Pos{File: "f", Line: p.line, Col: p.col}
			switch piece := rapid.IntRange(0, 19).Draw(t, "piece"); {
			case piece == 0:
				p.write("${VAR}")
				for _, c := range "v\nü" {
					w.add(string(c), at)
				}
			case piece == 1:
				p.write("${UNSET:-")
				for range rapid.IntRange(1, 3).Draw(t, "default") {
					writeChar(t, p, w, rapid.SampledFrom([]rune("ab <ü\n")).Draw(t, "char"), attribute)
				}
				p.write("}")
			case piece == 2:
				p.write("$$${")
				w.add("$", at)
				at.Col++
				w.add("$", at)
				at.Col += 2
				w.add("{", at)
			case piece == 3 && !attribute:
				p.write("<!-- a\n comment -->")
			default:
				writeChar(t, p, w, rapid.SampledFrom(chars).Draw(t, "char"), attribute)
			}
		}
		if attribute {
			p.write(`"/>`)
		} else {
			w.add("x", dataflow.Pos{File: "f", Line: p.line, Col: p.col})
			p.write("x \n</param>")
		}
		p.write("</operator></dataflow>\n")

		env := func(name string) (string, bool) { return map[string]string{"VAR": "v\nü"}[name], name == "VAR" }
		g, diags := xmlspec.Parse("f", strings.NewReader(p.String()), env)
		if len(diags) > 0 {
			t.Fatalf("%s\nof\n%s", diagnosticsText(diags), p.String())
		}
		param := g.Operators[0].Params[0]
		if param.Value != w.value.String() {
			t.Fatalf("value is %q, want %q, of\n%s", param.Value, w.value.String(), p.String())
		}
		for i := range param.Value {
			if got := param.Text.At(param.Value, i); got != w.places[i] {
				t.Fatalf("byte %d of %q is at %v, want %v, in\n%s", i, param.Value, got, w.places[i], p.String())
			}
		}
	})
}
