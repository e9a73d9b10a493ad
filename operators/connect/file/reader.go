package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/operators"
	"sluice/operators/value"
)

// formats are the values of the parameter format; the first is what "-" is.
var formats = []string{"csv", "ndjson", "arrow", "parquet"}

// Reader describes the operator type "reader".
var Reader = &dataflow.Descriptor{
	Name: "reader",
	Doc:  "Reads rows from files or standard input. Several files, from a pattern, are read one after the other in order of their names.",
	Params: []dataflow.ParamDesc{
		{Name: "path", Type: dataflow.PathParam, Default: "-", Doc: "File to read; - is standard input; a pattern such as data/*.csv reads all that match. Files ending in .gz and .zst are unpacked."},
		{Name: "format", Type: dataflow.EnumParam, Values: formats, Doc: "Format of the rows; by default it follows from the file's ending, and standard input is csv."},
		{Name: "header", Type: dataflow.BoolParam, Default: "true", Doc: "CSV: the first row names the columns, which are matched by name; without a header they are matched by position."},
		{Name: "delimiter", Type: dataflow.TextParam, Default: ",", Doc: `CSV: the character between fields; \t is a tab.`},
		{Name: "null", Type: dataflow.TextParam, Doc: "CSV: unquoted text that means NULL, besides an empty field."},
		{Name: "timestamp-format", Type: dataflow.TextParam, Doc: "Form of timestamps in csv and ndjson after strftime, such as %d/%m/%Y %H:%M; by default RFC 3339 and its shorter forms, or epoch milliseconds."},
		operators.OnError,
		{Name: "watermark-delay", Type: dataflow.DurationParam, Default: "0s", Doc: "How far the watermark stays behind the largest event time, that is, how much out of order rows may come without being late."},
		{Name: "epoch-rows", Type: dataflow.IntParam, Default: "65536", Min: 1, Doc: "An epoch ends after so many rows."},
		{Name: "epoch-interval", Type: dataflow.DurationParam, Default: "10ms", Doc: "An epoch ends after this time; not for a bounded file without rate."},
		{Name: "rate", Type: dataflow.FloatParam, Settable: true, Doc: "Most rows read in a second; 0, like leaving it out, is no limit."},
		{Name: "follow", Type: dataflow.BoolParam, Default: "false", Doc: "Keep reading as the file grows, also after it has been replaced or cut, like tail -F."},
		{Name: "idle-timeout", Type: dataflow.DurationParam, Default: "0s", Doc: "After this time without rows the input no longer holds back the watermark of others; 0s: never."},
		{Name: "persist", Type: dataflow.BoolParam, Default: "false", Doc: "Keep what is read of an input that cannot be read again, such as standard input, in the state, until a checkpoint no longer needs it; a restart then loses nothing of it."},
	},
	Output: true,
	Ports:  []dataflow.PortDesc{operators.ErrorsPort},
	Check:  checkReader,

	Deterministic: true,
}

func checkReader(c *dataflow.Check) []*dataflow.Schema {
	operators.CheckOnError(c)
	op := c.Op
	if _, err := formatOf(op); err != nil {
		c.ParamErrorf("path", 0, "", "%s", err)
	}
	if _, err := delimiterOf(op); err != nil {
		c.ParamErrorf("delimiter", 0, "", "%s", err)
	}
	if f := op.Value("timestamp-format"); f != "" {
		if _, err := value.CompileTimestampFormat(f); err != nil {
			c.ParamErrorf("timestamp-format", 0, "", "%s in timestamp-format", err)
		}
	}
	if op.Value("follow") == "true" {
		checkFollow(c)
	}
	main := op.OutputPort("")
	if main < 0 {
		c.Errorf("a reader needs an output with a type, such as <output name=%q type=\"...\"/>", op.Name)
		return operators.OutputSchemas(op, nil)
	}
	if op.Outputs[main].Type == "" {
		c.Report(dataflow.Diagnostic{Pos: op.Outputs[main].Pos, Message: fmt.Sprintf(
			"output %q needs a type, for a reader's columns follow from nothing else; `sluice infer FILE` writes one for a file", op.Outputs[main].Stream)})
	}
	return operators.OutputSchemas(op, c.Declared[main])
}

func checkFollow(c *dataflow.Check) {
	path := c.Op.Value("path")
	format, _ := formatOf(c.Op)
	switch {
	case path == "-":
		c.ParamErrorf("follow", 0, "", "follow needs a file; standard input is read until it ends anyway")
	case isPattern(path):
		c.ParamErrorf("follow", 0, "", "follow needs the name of one file, not the pattern %q", path)
	case compression(path) != "":
		c.ParamErrorf("follow", 0, "", "follow cannot read the compressed file %q", path)
	case format == "arrow" || format == "parquet":
		c.ParamErrorf("follow", 0, "", "follow works with csv and ndjson only, for a file in format %s is complete when it is there", format)
	}
}

// formatOf is the operator's format: as given, else after the ending of its path.
func formatOf(op *dataflow.Operator) (string, error) {
	if f := op.Value("format"); f != "" {
		return f, nil
	}
	path := op.Value("path")
	if path == "-" {
		return formats[0], nil
	}
	switch strings.ToLower(filepath.Ext(strings.TrimSuffix(path, compression(path)))) {
	case ".csv":
		return "csv", nil
	case ".tsv":
		return "csv", nil
	case ".ndjson", ".jsonl":
		return "ndjson", nil
	case ".arrow", ".feather", ".ipc":
		return "arrow", nil
	case ".parquet":
		return "parquet", nil
	}
	if strings.HasSuffix(path, "/") {
		return formats[0], nil
	}
	return "", fmt.Errorf("the ending of %q says nothing of its format; add <param name=\"format\" value=\"...\"/> with one of %s", path, strings.Join(formats, ", "))
}

// compression is the ending of path that tells how it is compressed: ".gz", ".zst" or "".
func compression(path string) string {
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".gz" || ext == ".zst" {
		return path[len(path)-len(ext):]
	}
	return ""
}

func delimiterOf(op *dataflow.Operator) (byte, error) {
	d := op.Value("delimiter")
	if _, given := op.Param("delimiter"); !given && strings.EqualFold(filepath.Ext(strings.TrimSuffix(op.Value("path"), compression(op.Value("path")))), ".tsv") {
		return '\t', nil
	}
	if d == `\t` {
		return '\t', nil
	}
	if len(d) != 1 || strings.ContainsAny(d, "\"\r\n") || d[0] >= 0x80 {
		return 0, fmt.Errorf(`delimiter must be one ASCII character other than a quote or a line end, or \t; it is %q`, d)
	}
	return d[0], nil
}

func isPattern(path string) bool { return strings.ContainsAny(path, "*?[") }

// resolvePath takes a relative path against dir.
func resolvePath(dir, path string) string {
	if path == "-" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// inputPaths are the files that a reader's path names, in order.
func inputPaths(dir, path string) ([]string, error) {
	full := resolvePath(dir, path)
	if path == "-" {
		return []string{path}, nil
	}
	if _, err := os.Stat(full); err == nil || !isPattern(path) {
		return []string{full}, checkInput(full)
	}
	found, err := filepath.Glob(full)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", path, err)
	}
	found = slices.DeleteFunc(found, func(p string) bool {
		info, err := os.Stat(p)
		return err == nil && info.IsDir()
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("no file matches the pattern %q", full)
	}
	slices.Sort(found)
	return found, nil
}

func checkInput(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("input %q does not exist", path)
	case err != nil:
		return nil // told when it is opened
	case info.IsDir():
		return fmt.Errorf("input %q is a folder; to read the files in it write %q", path, filepath.Join(path, "*.csv"))
	}
	return nil
}
