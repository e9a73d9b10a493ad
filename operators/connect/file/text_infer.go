package file

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/value"
)

// inferText proposes a schema for the rows of r, in format csv or ndjson, after a look at the first
// maxRows of them; rows that cannot be read are passed over. A column gets the narrowest type that holds
// all of its values: bool (the words true and false), int, float, timestamp (as a text with a date),
// duration, else string. Numbers with zeros before them are taken for text. A column is nullable unless
// the whole input was seen to have no NULL in it, and the first timestamp column without NULL is the
// event time.
func inferText(r io.Reader, format string, o DecodeOptions, maxRows int) (*dataflow.Schema, error) {
	var guesses []*typeGuess
	var whole bool
	var err error
	if format == "ndjson" {
		guesses, whole, err = guessNDJSON(r, maxRows)
	} else {
		guesses, whole, err = guessCSV(r, o, maxRows)
	}
	if err != nil {
		return nil, err
	}
	if len(guesses) == 0 {
		return nil, errors.New("there are no columns to infer a type from")
	}
	s := &dataflow.Schema{}
	eventTime := false
	for _, g := range guesses {
		c := dataflow.Column{Name: g.name, Type: g.typ(), Nullable: g.null || !whole}
		if c.Type.Kind == dataflow.Timestamp && !g.null && !eventTime {
			c.EventTime, eventTime = true, true
		}
		s.Columns = append(s.Columns, c)
	}
	return s, nil
}

// typeGuess is what the values of a column have shown of its type.
type typeGuess struct {
	name string
	null bool
	seen bool // a value
	not  [dataflow.Null]bool
}

// guessed are the types that a guess chooses from, narrowest first.
var guessed = [...]dataflow.Type{dataflow.BoolType, dataflow.IntType, dataflow.FloatType, dataflow.TimestampType, dataflow.DurationType}

func (g *typeGuess) typ() dataflow.Type {
	for _, t := range guessed {
		if g.seen && !g.not[t.Kind] {
			return t
		}
	}
	return dataflow.StringType
}

// isOnly notes that a value is of one of the kinds and of no other.
func (g *typeGuess) isOnly(kinds ...dataflow.Kind) {
	g.seen = true
	for _, t := range guessed {
		is := false
		for _, k := range kinds {
			is = is || k == t.Kind
		}
		g.not[t.Kind] = g.not[t.Kind] || !is
	}
}

// addNumber notes a value that is written as a number.
func (g *typeGuess) addNumber(text []byte) {
	if _, err := value.ParseInt(text); err == nil {
		g.isOnly(dataflow.Int, dataflow.Float)
		return
	}
	g.isOnly(dataflow.Float)
}

// addText notes a value that is written as a text.
func (g *typeGuess) addText(text []byte) {
	if _, err := value.ParseTimestamp(text); err == nil && bytes.IndexByte(text[1:], '-') >= 0 {
		g.isOnly(dataflow.Timestamp)
	} else if _, err := value.ParseDuration(text); err == nil {
		g.isOnly(dataflow.Duration)
	} else {
		g.isOnly(dataflow.String)
	}
}

// addField notes a field of a CSV row.
func (g *typeGuess) addField(text []byte) {
	if _, err := value.ParseBool(text); err == nil && len(text) > 1 {
		g.isOnly(dataflow.Bool)
		return
	}
	digits := bytes.TrimLeft(text, "+-")
	if _, err := value.ParseFloat(text); err == nil && !(len(digits) > 1 && digits[0] == '0' && digits[1]-'0' <= 9) {
		g.addNumber(text)
		return
	}
	g.addText(text)
}

// guessCSV looks at CSV, all columns of which are read as text.
func guessCSV(r io.Reader, o DecodeOptions, maxRows int) (guesses []*typeGuess, whole bool, err error) {
	o.Workers, o.Null, o.TimestampFormat = 1, "", ""
	names, start, err := firstCSVRow(r, o)
	if err != nil {
		return nil, false, err
	}
	schema := &dataflow.Schema{}
	known := map[string]bool{}
	for i, name := range names {
		if !o.Header {
			name = fmt.Sprintf("c%d", i+1)
		}
		if known[name] {
			return nil, false, fmt.Errorf("the header has column %q twice", name)
		}
		known[name] = true
		guesses = append(guesses, &typeGuess{name: name})
		schema.Columns = append(schema.Columns, dataflow.Column{Name: name, Type: dataflow.StringType, Nullable: true})
	}
	o.Schema = schema
	d, err := newCSVDecoder(io.MultiReader(bytes.NewReader(start), r), o)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	for rows := 0; rows < maxRows; {
		c, err := d.Next(context.Background())
		if err == io.EOF {
			return guesses, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		for i, g := range guesses {
			g.addColumn(&c.Batch.Cols[i])
		}
		rows += c.Batch.Len
	}
	return guesses, false, nil
}

// addColumn notes the values of a column of text.
func (g *typeGuess) addColumn(v *batch.Vector) {
	for i := range v.Len {
		if v.IsNull(i) {
			g.null = true
		} else {
			g.addField(v.Bytes(i))
		}
	}
}

// firstCSVRow reads the first row, and returns its fields and all that has been read.
func firstCSVRow(r io.Reader, o DecodeOptions) (fields []string, start []byte, err error) {
	f, err := newCSVFormat(o)
	if err != nil {
		return nil, nil, err
	}
	for eof := false; ; {
		n := len(start)
		start = append(start, make([]byte, 64<<10)...)
		m, err := io.ReadFull(r, start[n:])
		start = start[:n+m]
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			eof = true
		} else if err != nil {
			return nil, nil, err
		}
		row := bytes.TrimLeft(bytes.TrimPrefix(start, byteOrderMark), "\r\n")
		if len(row) == 0 && eof {
			return nil, nil, errors.New("the input is empty")
		}
		if eof && row[len(row)-1] != '\n' {
			row = append(bytes.Clone(row), '\n')
		}
		end := f.rowEnd(row, 0)
		if end < 0 && eof {
			end = len(row)
		}
		if end >= 0 {
			fields, err = f.headerNames(row[:end])
			return fields, start, err
		}
		if len(start) > usualSizes.row {
			return nil, nil, fmt.Errorf("the first line is longer than %d bytes", usualSizes.row)
		}
	}
}

// guessNDJSON looks at NDJSON. A column whose values are objects or arrays is left out.
func guessNDJSON(r io.Reader, maxRows int) (guesses []*typeGuess, whole bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, usualSizes.row)
	g := ndjsonGuess{columns: map[string]*typeGuess{}, nested: map[string]bool{}}
	for g.rows < maxRows {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return nil, false, err
			}
			whole = true
			break
		}
		if line := bytes.TrimPrefix(lines.Bytes(), byteOrderMark); json.Valid(line) {
			if err := g.addRow(line); err != nil {
				return nil, false, err
			}
		}
	}
	for _, c := range g.order {
		if !g.nested[c.name] {
			c.null = c.null || g.count[c.name] < g.rows
			guesses = append(guesses, c)
		}
	}
	return guesses, whole, nil
}

// ndjsonGuess is what the rows have shown so far.
type ndjsonGuess struct {
	rows    int
	order   []*typeGuess // columns as they first came
	columns map[string]*typeGuess
	count   map[string]int // rows that have the column
	nested  map[string]bool
}

// addRow notes the members of a row, which is valid JSON.
func (g *ndjsonGuess) addRow(line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return err // not an object
	}
	g.rows++
	if g.count == nil {
		g.count = map[string]int{}
	}
	row := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return err
		}
		key := name.(string) // as JSON demands
		c := g.columns[key]
		if c == nil {
			c = &typeGuess{name: key}
			g.columns[key] = c
			g.order = append(g.order, c)
		}
		if !row[key] {
			row[key] = true
			g.count[key]++
		}
		g.addValue(c, v)
	}
	return nil
}

func (g *ndjsonGuess) addValue(c *typeGuess, v json.RawMessage) {
	switch v[0] {
	case 'n':
		c.null = true
	case 't', 'f':
		c.isOnly(dataflow.Bool)
	case '{', '[':
		g.nested[c.name] = true
	case '"':
		var s string
		if err := json.Unmarshal(v, &s); err == nil && s != "" && !strings.ContainsRune(s, 0) {
			c.addText([]byte(s))
		} else {
			c.isOnly(dataflow.String)
		}
	default:
		c.addNumber(v)
	}
}
