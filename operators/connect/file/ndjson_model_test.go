package file

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sluice/dataflow/batch"
)

// TestNDJSONAgainstEncodingJSON decodes random objects, laid out at random, that encoding/json wrote.
func TestNDJSONAgainstEncodingJSON(t *testing.T) {
	schema := columns(t, "a int,é\"\\ string,f float,b bool")
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\"\\/\b\f\n\r\t\x00\x7f", "é😀\u2028<&>", "a longer text without any escapes"}))
	rapid.Check(t, func(t *rapid.T) {
		var text bytes.Buffer
		var want []string
		for range rapid.IntRange(0, 10).Draw(t, "rows") {
			object := map[string]any{}
			row := []string{"NULL", "NULL", "NULL", "NULL"}
			if rapid.Bool().Draw(t, "has a") {
				object["a"] = rapid.Int64().Draw(t, "a")
			}
			if rapid.Bool().Draw(t, "has text") {
				object["é\"\\"] = texts.Draw(t, "text")
			}
			if rapid.Bool().Draw(t, "has f") {
				object["f"] = rapid.Float64Range(-1e300, 1e300).Draw(t, "f")
			}
			if rapid.Bool().Draw(t, "has b") {
				object["b"] = rapid.Bool().Draw(t, "b")
			}
			if rapid.Bool().Draw(t, "has more") {
				object["more"] = []any{texts.Draw(t, "more"), map[string]any{"a": 1.5e300, "b": nil}, true, []any{}}
			}
			line, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "spaced") {
				var spaced bytes.Buffer
				if err := json.Indent(&spaced, line, "\t ", "\r "); err != nil {
					t.Fatal(err)
				}
				line = bytes.ReplaceAll(spaced.Bytes(), []byte("\n"), []byte("\t"))
			}
			// What is expected is what encoding/json itself reads.
			var read struct {
				A *int64   `json:"a"`
				F *float64 `json:"f"`
				B *bool    `json:"b"`
			}
			if err := json.Unmarshal(line, &read); err != nil {
				t.Fatal(err)
			}
			one := batch.New(columns(t, "a int,f float,b bool"))
			for i := range one.Cols {
				one.Cols[i].AppendNull()
			}
			if read.A != nil {
				one.Cols[0].Ints[0], row[0] = *read.A, "a"
			}
			if read.F != nil {
				one.Cols[1].Floats[0], row[2] = *read.F, "f"
			}
			if read.B != nil {
				one.Cols[2].Bits.SetTo(0, *read.B)
				row[3] = "b"
			}
			for i, at := range []int{0, 2, 3} {
				if row[at] != "NULL" {
					one.Cols[i].Valid = nil
				}
			}
			shown := strings.Split(show(one, 0), "|")
			row[0], row[2], row[3] = shown[0], shown[1], shown[2]
			if s, ok := object["é\"\\"].(string); ok {
				row[1] = strings.ToValidUTF8(s, "\uFFFD")
			}
			want = append(want, strings.Join(row, "|"))
			text.Write(append(line, '\n'))
		}
		o := DecodeOptions{Schema: schema}
		f, err := newNDJSONFormat(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := drainCut(cutDecoder(t, f, o, text.String(), 1<<20), text.String())
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: %v\n got %q\nwant %q", &text, err, got, want)
		}
	})
}

// TestNDJSONRandomText decodes random text, cut at random and whole: the same comes of it, and what
// encoding/json finds right is right.
func TestNDJSONRandomText(t *testing.T) {
	parts := rapid.SampledFrom([]string{"{", "}", "\"a\"", "\"s\"", "\"x\"", ":", ":", ",", "1", "-2.5e1", "null", "true", "\"t\"", "[", "]", "\\", "\"", " ", "\n", "\r\n",
		"{\"a\":1,\"s\":\"t\"}\n", "{\"a\":", "\"s\":\"", "{}", "é", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(parts, 0, 40).Draw(t, "parts"), "")
		o := DecodeOptions{Schema: columns(t, "a float,s string"), Workers: 1}
		f, err := newNDJSONFormat(o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := drainDecoder(newTextDecoder(strings.NewReader(text), f, o, usualSizes))
		if err != nil {
			t.Fatal(err)
		}
		got, err := drainCut(cutDecoder(t, f, o, text, 1<<20), text)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: %v\n got %q\nwant %q", text, err, got, want)
		}
		checkNDJSONLines(t, text, want)
	})
}

// checkNDJSONLines compares which lines were found to be right with what encoding/json says.
func checkNDJSONLines(t interface{ Fatalf(string, ...any) }, text string, rows []string) {
	good := 0
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Trim(line, " \t\r") == "" {
			continue
		}
		var v struct {
			A *float64 `json:"a"`
			S *string  `json:"s"`
		}
		if utf8.ValidString(line) && strings.HasPrefix(strings.TrimLeft(line, " \t\r"), "{") && json.Unmarshal([]byte(line), &v) == nil {
			good++
		}
	}
	for _, row := range rows {
		if !strings.Contains(row, ": ") {
			good--
		}
	}
	if good != 0 {
		t.Fatalf("%q: encoding/json finds %d more rows that are right than\n%q", text, good, rows)
	}
}

func FuzzNDJSON(f *testing.F) {
	f.Add([]byte("{\"a\":1,\"s\":\"x\\u00e9\"}\n{\"z\":[{}]}\n"), uint8(9))
	f.Add([]byte("{\"a\":-1.5e3}{\n\"\\ud83d\\ude00\"\n{\"s\":\"\\"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, block uint8) {
		o := DecodeOptions{Schema: columns(t, "a float,s string,t timestamp,d decimal,y bytes"), Workers: 1}
		format, err := newNDJSONFormat(o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := drainDecoder(newTextDecoder(bytes.NewReader(text), format, o, usualSizes))
		if err != nil {
			t.Fatal(err)
		}
		d := newTextDecoder(bytes.NewReader(text), format, o, textSizes{block: int(block) + 1, row: 1 << 20, raw: 5})
		if got, err := drainDecoder(d); err != nil || !slices.Equal(got, want) {
			t.Fatalf("cut into blocks: %v\n got %q\nwant %q", err, got, want)
		}
	})
}
