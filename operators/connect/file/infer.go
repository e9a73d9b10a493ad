package file

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sluice/dataflow"
)

// InferOptions say how a data file is to be looked at.
type InferOptions struct {
	Format    string // "" for the one that the file's ending tells
	Delimiter string // CSV; "" for the usual one
	Header    bool   // CSV: the first row names the columns
}

// inferRows is how many rows of a text file are looked at.
const inferRows = 100_000

// Infer looks at a data file ("-" for standard input) and proposes a schema for it.
func Infer(path string, o InferOptions) (*dataflow.Schema, error) {
	op := &dataflow.Operator{Params: []dataflow.Param{{Name: "path", Value: path}, {Name: "format", Value: o.Format}}, Desc: Reader}
	if o.Delimiter != "" {
		op.Params = append(op.Params, dataflow.Param{Name: "delimiter", Value: o.Delimiter})
	}
	format, err := formatOf(op)
	if err != nil {
		return nil, fmt.Errorf("the ending of %q says nothing of its format; add --format with one of %s", path, strings.Join(formats, ", "))
	}
	if !slices.Contains(formats, format) {
		return nil, fmt.Errorf("unknown format %q; it is one of %s", format, strings.Join(formats, ", "))
	}
	d, err := delimiterOf(op)
	if err != nil {
		return nil, err
	}
	in, err := openInput(filepath.Clean(path), format, nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var s *dataflow.Schema
	switch format {
	case "arrow":
		s, err = InferArrow(in.r)
	case "parquet":
		s, err = InferParquet(in.file)
	default:
		s, err = inferText(in.r, format, DecodeOptions{Name: path, Header: o.Header, Delimiter: d}, inferRows)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
