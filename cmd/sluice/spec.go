package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sluice/dataflow"
	"sluice/operators/catalog"
	"sluice/operators/connect/file"
	"sluice/specs/xmlspec"
)

// loadSpec reads a spec, applies sets ("OP.PARAM=VALUE") and resolves it. The graph is usable if the
// diagnostics have no errors. The error says that there is no such spec.
func loadSpec(path string, sets []string, env lookup, s streams) (*dataflow.Graph, dataflow.Diagnostics, error) {
	in, err := openSpec(path, s)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	return parseSpec(path, specDir(path), in, sets, env)
}

func openSpec(path string, s streams) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(s.in), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, specFileError(path, err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(usageErrorf("spec %q is a folder", path), f.Close())
	}
	return f, nil
}

// specDir is the folder against which a spec's relative paths are taken.
func specDir(path string) string {
	if path == "-" {
		return "."
	}
	return filepath.Dir(path)
}

// parseSpec is loadSpec of what in gives; relative paths are taken against dir.
func parseSpec(path, dir string, in io.Reader, sets []string, env lookup) (*dataflow.Graph, dataflow.Diagnostics, error) {
	g, diags := xmlspec.Parse(path, in, env)
	if g == nil {
		return nil, diags, nil
	}
	g.Dir = dir
	diags = append(diags, applySets(g, sets)...)
	if path == "-" {
		diags = append(diags, refuseSharedInput(g)...)
	}
	diags = append(diags, refuseSharedOutput(g)...)
	diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	diags.Sort()
	return g, diags, nil
}

func specFileError(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return usageErrorf("spec %q does not exist", path)
	}
	return usageErrorf("%v", err)
}

// applySets replaces parameters of operators.
func applySets(g *dataflow.Graph, sets []string) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	for _, set := range sets {
		place := dataflow.Pos{File: "--set " + set}
		target, val, ok := strings.Cut(set, "=")
		name, param, dotted := strings.Cut(target, ".")
		if !ok || !dotted {
			diags = append(diags, dataflow.Diagnostic{Pos: place, Message: "must have the form OPERATOR.PARAMETER=VALUE"})
			continue
		}
		op := g.Operator(name)
		if op == nil {
			var names []string
			for _, o := range g.Operators {
				names = append(names, o.Name)
			}
			diags = append(diags, dataflow.Diagnostic{Pos: place, Message: fmt.Sprintf("unknown operator %q", name), Suggestion: dataflow.Nearest(name, names)})
			continue
		}
		place.File = "--set " + target
		p := dataflow.Param{Name: param, Value: val, Pos: place, Text: dataflow.Text{{Pos: dataflow.Pos{File: place.File, Line: 1, Col: 1}}}}
		replaced := false
		for i := range op.Params {
			if op.Params[i].Name == param {
				op.Params[i], replaced = p, true
			}
		}
		if !replaced {
			op.Params = append(op.Params, p)
		}
	}
	return diags
}

// refuseSharedInput reports readers of the standard input that the spec itself came from.
func refuseSharedInput(g *dataflow.Graph) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	for _, op := range g.Operators {
		p, given := op.Param("path")
		if op.Type == "reader" && (!given || p.Value == "-") {
			diags = append(diags, dataflow.Diagnostic{Pos: op.Pos, Operator: op.Name, Message: "cannot read standard input, for the spec has come from there"})
		}
	}
	return diags
}

// refuseStandardStreams reports paths that are standard input or output.
func refuseStandardStreams(g *dataflow.Graph) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	for _, op := range g.Operators {
		if op.Desc == nil {
			continue // an unknown type
		}
		for _, d := range op.Desc.Params {
			if d.Type != dataflow.PathParam || op.Value(d.Name) != "-" {
				continue
			}
			pos := op.Pos
			if p, given := op.Param(d.Name); given {
				pos = p.Pos
			}
			diags = append(diags, dataflow.Diagnostic{Pos: pos, Operator: op.Name,
				Message: fmt.Sprintf("%s is \"-\", but a scheduler has no standard input and output for a query; name a file", d.Name)})
		}
	}
	return diags
}

// refuseSharedOutput reports writers of a file or folder that another one writes too: only what the last of
// them has written would be left. Several may write to standard output, and to devices and named pipes.
func refuseSharedOutput(g *dataflow.Graph) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	first := make(map[string]string)
	for _, op := range g.Operators {
		p, given := op.Param("path")
		if op.Type != file.Writer.Name || !given {
			continue
		}
		path := file.OutputPlace(p.Value, g.Dir)
		if path == "" {
			continue
		}
		if other, ok := first[path]; ok {
			diags = append(diags, dataflow.Diagnostic{Pos: p.Pos, Operator: op.Name, Message: fmt.Sprintf("writes %q, as operator %q does; each needs a path of its own", p.Value, other)})
			continue
		}
		first[path] = op.Name
	}
	return diags
}

// printDiagnostics writes one line for each.
func printDiagnostics(w io.Writer, diags dataflow.Diagnostics) {
	for _, d := range diags {
		fmt.Fprintln(w, d)
	}
}
