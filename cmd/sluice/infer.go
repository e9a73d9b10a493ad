package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sluice/dataflow"
	"sluice/operators/connect/file"
)

type inferCommand struct {
	File      string `arg:"" help:"The data file."`
	Format    string `help:"csv, ndjson, arrow or parquet; by default after the file's ending." placeholder:"FORMAT"`
	Delimiter string `help:"CSV: the character between fields."`
	Header    bool   `help:"CSV: the first row names the columns." default:"true" negatable:""`
	Name      string `help:"Name of the type; by default after the file's name."`
}

// Run implements the command.
func (c *inferCommand) Run(s streams) error {
	if _, err := os.Stat(c.File); c.File != "-" && err != nil {
		return usageErrorf("input %q does not exist", c.File)
	}
	schema, err := file.Infer(c.File, file.InferOptions{Format: c.Format, Delimiter: c.Delimiter, Header: c.Header})
	if err != nil {
		return &exitError{exitUsage, err.Error()}
	}
	name := c.Name
	if name == "" {
		name = typeName(c.File)
	}
	_, err = fmt.Fprint(s.out, typeElement(name, schema))
	return err
}

// typeName makes a name of a file's: flights-20k.csv is Flights20k.
func typeName(path string) string {
	base := filepath.Base(path)
	base, _, _ = strings.Cut(base, ".")
	var b strings.Builder
	for _, word := range strings.FieldsFunc(base, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	}) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	if b.Len() == 0 {
		return "Row"
	}
	return b.String()
}

var xmlEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;", "\n", "&#10;", "\t", "&#9;")

// typeElement writes the schema as a <type> of a spec.
func typeElement(name string, s *dataflow.Schema) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<type name=\"%s\">\n", xmlEscape.Replace(name))
	for _, c := range s.Columns {
		fmt.Fprintf(&b, "  <column name=\"%s\" type=\"%s\"", xmlEscape.Replace(c.Name), c.Type)
		if c.EventTime {
			b.WriteString(` eventtime="true"`)
		}
		if !c.Nullable {
			b.WriteString(` nullable="false"`)
		}
		b.WriteString("/>\n")
	}
	b.WriteString("</type>\n")
	return b.String()
}
