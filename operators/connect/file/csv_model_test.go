package file

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
)

// modelCSV reads text byte by byte, as the format is described: rows of width text fields, in the form
// of drainDecoder.
func modelCSV(text string, width, limit, rawLimit int) (rows []string) {
	text = strings.TrimPrefix(text, "\xEF\xBB\xBF")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	line := 1
	for text != "" {
		fields, size, reason := modelRow(text)
		raw := strings.TrimSuffix(strings.TrimSuffix(text[:size], "\n"), "\r")
		if size > limit {
			reason = fmt.Sprintf("the row is longer than %d bytes", limit)
			raw = text[:rawLimit]
			size = len(text)
			if i := strings.IndexByte(text[limit:], '\n'); i >= 0 {
				size = limit + i + 1
			}
		}
		blank := reason == "" && len(fields) == 1 && fields[0] == "NULL"
		if reason == "" && len(fields) != width && !blank {
			plural := "s"
			if len(fields) == 1 {
				plural = ""
			}
			reason = fmt.Sprintf("%d field%s instead of %d", len(fields), plural, width)
		}
		switch {
		case reason != "":
			rows = append(rows, fmt.Sprintf("%d: %s [%s]", line, reason, raw))
		case !blank || width == 1:
			rows = append(rows, strings.Join(fields, "|"))
		}
		line += strings.Count(text[:size], "\n")
		text = text[size:]
	}
	return rows
}

// modelRow reads the first row of text, which ends in a line feed.
func modelRow(text string) (fields []string, size int, reason string) {
	rest := func(i int) int { return i + strings.IndexByte(text[i:], '\n') + 1 }
	i := 0
	for n := 1; ; n++ {
		var field strings.Builder
		if text[i] == '"' {
			for i++; ; i++ {
				if i == len(text) {
					return nil, len(text), fmt.Sprintf("the quote that opens field %d is not closed", n)
				}
				if text[i] == '"' {
					if i+1 == len(text) || text[i+1] != '"' {
						break
					}
					i++
				}
				field.WriteByte(text[i])
			}
			i++
			if i < len(text) && text[i] == '\r' && text[i+1] == '\n' {
				i++
			}
			if i == len(text) || text[i] != ',' && text[i] != '\n' || text[i] == ',' && text[i-1] == '\r' {
				return nil, rest(i), fmt.Sprintf("field %d goes on after its closing quote", n)
			}
		} else {
			start := i
			for text[i] != ',' && text[i] != '\n' {
				if text[i] == '"' {
					return nil, rest(i), fmt.Sprintf("field %d has a quote, but is not quoted", n)
				}
				i++
			}
			s := text[start:i]
			if text[i] == '\n' {
				s = strings.TrimSuffix(s, "\r")
			}
			if s == "" {
				s = "NULL"
			}
			field.WriteString(s)
		}
		fields = append(fields, field.String())
		i++
		if text[i-1] == '\n' {
			return fields, i, ""
		}
	}
}

func textColumns(n int) *dataflow.Schema {
	s := &dataflow.Schema{}
	for i := range n {
		s.Columns = append(s.Columns, dataflow.Column{Name: fmt.Sprintf("c%d", i), Type: dataflow.StringType, Nullable: true})
	}
	return s
}

// cutDecoder is a decoder of format for text, with blocks, workers and reads of any size.
func cutDecoder(t *rapid.T, format textFormat, o DecodeOptions, text string, row int) *textDecoder {
	o.Workers = rapid.IntRange(1, 3).Draw(t, "workers")
	o.Live = rapid.Bool().Draw(t, "live")
	sizes := textSizes{block: rapid.IntRange(1, 200).Draw(t, "block"), row: row, raw: 5}
	r := &pieces{text: []byte(text), sizes: rapid.SliceOfN(rapid.IntRange(1, 50), 0, 5).Draw(t, "reads")}
	return newTextDecoder(r, format, o, sizes)
}

var csvText = rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SampledFrom([]string{"a", "b", "é", ",", ",", ",", "\n", "\n", "\r\n", "\r", "\"", "\"", "\"\"", "\"x\"", "\n\"", "\",", " ", "abcdefghij"})
	return strings.Join(rapid.SliceOfN(parts, 0, 60).Draw(t, "parts"), "")
})

func TestCSVAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := csvText.Draw(t, "text")
		width := rapid.IntRange(1, 3).Draw(t, "width")
		limit := rapid.SampledFrom([]int{30, 64, 1 << 20}).Draw(t, "limit")
		o := DecodeOptions{Schema: textColumns(width)}
		f, err := newCSVFormat(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := drainCut(cutDecoder(t, f, o, text, limit), text)
		if err != nil {
			t.Fatal(err)
		}
		if want := modelCSV(text, width, limit, 5); !slices.Equal(got, want) {
			t.Fatalf("%q with %d columns\n got %q\nwant %q", text, width, got, want)
		}
	})
}

// drainCut is drainDecoder for a property, which checks the places of the chunks too.
func drainCut(d *textDecoder, text string) (rows []string, err error) {
	defer d.Close()
	for {
		c, err := d.Next(context.Background())
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		if line := strings.Count(text[:c.Offset], "\n") + 1; int64(line) != c.Line {
			return rows, fmt.Errorf("a chunk at %d has line %d instead of %d", c.Offset, c.Line, line)
		}
		part, err := chunkRows(c)
		if err != nil {
			return rows, err
		}
		rows = append(rows, part...)
	}
}

func TestCSVAgainstEncodingCSV(t *testing.T) {
	values := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "x,y", "\"", "\n", "a\r\nb", "é\"\"", " b "}), rapid.StringMatching(`[a-z",\n ]{0,12}`))
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 4).Draw(t, "width")
		var text strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "rows") {
			for i := range width {
				if i > 0 {
					text.WriteByte(',')
				}
				v := values.Draw(t, "value")
				if rapid.Bool().Draw(t, "quoted") || strings.ContainsAny(v, "\",\r\n") || v == "" && width == 1 {
					v = `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
				}
				text.WriteString(v)
			}
			text.WriteString(rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line end"))
		}
		reference := csv.NewReader(strings.NewReader(text.String()))
		records, err := reference.ReadAll()
		if err != nil {
			t.Fatalf("encoding/csv: %v", err)
		}
		var want []string
		for _, record := range records {
			want = append(want, strings.Join(record, "|"))
		}
		o := DecodeOptions{Schema: textColumns(width)}
		f, err := newCSVFormat(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := drainCut(cutDecoder(t, f, o, text.String(), 1<<20), text.String())
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			// encoding/csv knows no NULL, and makes line feeds of CRLF in quoted fields.
			got[i] = strings.ReplaceAll(strings.ReplaceAll(got[i], "NULL", ""), "\r\n", "\n")
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q\n got %q\nwant %q", &text, got, want)
		}
	})
}

// TestCSVTypedColumns decodes random values of all types, good and bad ones, with random cuts, and
// compares with each row decoded alone.
func TestCSVTypedColumns(t *testing.T) {
	schema := columns(t, "b bool,i int!,f float,d decimal,s string,y bytes,t timestamp*,u duration")
	values := []string{"true", "f", "-12", "123456789", "1.5", "1e300", "12.34", "x", "\"quo\"\"ted\"", "\"\"", "", "", "aGVsbG8=", "2001-01-01",
		"2001-01-01T06:55:00.5Z", "1h2m", "0", "\xff", "NA", "12345678901234567890"}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var want []string
		n := rapid.IntRange(0, 30).Draw(t, "rows")
		for line := 1; line <= n; line++ {
			var row []string
			for _, good := range []string{"1", "-5", "0.25", "1.25", "text", "aGk=", "2001-01-01", "5s"} {
				if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
					good = rapid.SampledFrom(values).Draw(t, "value")
				}
				row = append(row, good)
			}
			text.WriteString(strings.Join(row, ",") + "\n")
			alone, err := drainCut(cutDecoder(t, mustCSV(t, schema), DecodeOptions{Schema: schema}, strings.Join(row, ","), 1<<20), "")
			if err != nil {
				t.Fatal(err)
			}
			for i := range alone {
				if reason, ok := strings.CutPrefix(alone[i], "1: "); ok {
					alone[i] = fmt.Sprintf("%d: %s", line, reason)
				}
			}
			want = append(want, alone...)
		}
		got, err := drainCut(cutDecoder(t, mustCSV(t, schema), DecodeOptions{Schema: schema}, text.String(), 1<<20), text.String())
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: %v\n got %q\nwant %q", &text, err, got, want)
		}
	})
}

func mustCSV(t *rapid.T, s *dataflow.Schema) *csvFormat {
	f, err := newCSVFormat(DecodeOptions{Schema: s, Null: "NA"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "\"x\"\"y\",\r\n\"open", "\xEF\xBB\xBF1,2\n\n3", "a\"b,c\n\"d\"e,f\n"} {
		f.Add([]byte(s), uint8(2), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, width, block uint8) {
		columns := int(width%4) + 1
		o := DecodeOptions{Schema: textColumns(columns), Workers: 2}
		format, err := newCSVFormat(o)
		if err != nil {
			t.Fatal(err)
		}
		d := newTextDecoder(bytes.NewReader(text), format, o, textSizes{block: int(block) + 1, row: 1 << 20, raw: 5})
		got, err := drainCut(d, string(text))
		if err != nil {
			t.Fatal(err)
		}
		want := modelCSV(string(text), columns, 1<<20, 5)
		if bytes.Equal(bytes.ToValidUTF8(text, nil), text) && !slices.Equal(got, want) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	})
}
