package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers orders the top-level packages: one may import its own layer and those before it.
var layers = [][]string{
	{"sluice/dataflow"},
	{"sluice/operators", "sluice/specs", "sluice/rewrite", "sluice/metaquery"},
	{"sluice/executor"},
	{"sluice/scheduler"},
	{"sluice/cmd"},
}

// pure packages do no I/O and know no clock.
var pure = []string{"dataflow", "rewrite", "operators/expr", "operators/window"}

// impure are what pure packages may not import.
var impure = []string{"net", "net/http", "os", "os/exec", "github.com/pebbe/zmq4", "github.com/go-zookeeper/zk", "github.com/mesos/mesos-go"}

// clockFree packages and files may not ask for the time: it comes to them with an epoch.
var clockFree = append([]string{"executor/task.go", "operators/filter.go", "operators/map.go", "operators/union.go"}, pure...)

// hashSeed is the file whose randomness no result depends on: the seed of hash tables.
const hashSeed = "operators/window/hash.go"

// recovering are the files where a panic is an error on its way: the Arrow library panics on damaged
// data, what calls it recovers, and checks of our own in between take the same way.
var recovering = []string{
	"dataflow/batch/arrow_from.go", "dataflow/batch/arrow_values.go",
	"operators/connect/file/arrow.go", "operators/connect/file/parquet_memory.go",
}

type source struct {
	path string // from the root of the repository, with slashes
	file *ast.File
	fset *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var all []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (rel == "bench" || rel == "tools" || rel == "bin" || strings.HasPrefix(d.Name(), ".") && rel != ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{rel, f, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found %d Go files: the walk does not see the repository", len(all))
	}
	return all
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) imports() []string {
	var paths []string
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

func under(path string, folders []string) bool {
	for _, f := range folders {
		if path == f || strings.HasPrefix(path, f+"/") {
			return true
		}
	}
	return false
}

func layer(pkg string) int {
	for i, l := range layers {
		if under(pkg, l) {
			return i
		}
	}
	return -1
}

func TestImportsPointOneWay(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		from := layer("sluice/" + filepath.ToSlash(filepath.Dir(s.path)))
		for _, p := range s.imports() {
			if to := layer(p); from >= 0 && to > from {
				t.Errorf("%s imports %s, which stands above it", s.path, p)
			}
		}
		if strings.HasPrefix(s.path, "specs/") || strings.HasPrefix(s.path, "rewrite/") {
			for _, p := range s.imports() {
				if under(p, []string{"sluice/operators"}) {
					t.Errorf("%s imports %s: front ends and rules know operators by their descriptors", s.path, p)
				}
			}
		}
	}
}

func TestPurePackages(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || !under(s.path, pure) {
			continue
		}
		for _, p := range s.imports() {
			if under(p, impure) {
				t.Errorf("%s imports %s", s.path, p)
			}
		}
	}
}

// calls reports each call of a function of an imported package, such as time.Now, and of builtins.
func (s source) calls(report func(pkg, name string, pos token.Position)) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := c.Fun.(type) {
		case *ast.Ident:
			report("", f.Name, s.fset.Position(c.Pos()))
		case *ast.SelectorExpr:
			if x, ok := f.X.(*ast.Ident); ok {
				report(x.Name, f.Sel.Name, s.fset.Position(c.Pos()))
			}
		}
		return true
	})
}

func TestNoClockInCores(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || !under(s.path, clockFree) {
			continue
		}
		s.calls(func(pkg, name string, pos token.Position) {
			if pkg == "time" && (name == "Now" || name == "Since" || name == "Sleep" || name == "After" || name == "NewTimer") {
				t.Errorf("%s: time.%s in a core", pos, name)
			}
			if pkg == "rand" && s.path != hashSeed {
				t.Errorf("%s: randomness in a core", pos)
			}
		})
	}
}

// TestNoBarePanic: what panics says that it is an assertion, for bad input must give an error.
func TestNoBarePanic(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || slices.Contains(recovering, s.path) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok || len(c.Args) != 1 {
				return true
			}
			if f, ok := c.Fun.(*ast.Ident); !ok || f.Name != "panic" {
				return true
			}
			text := ""
			ast.Inspect(c.Args[0], func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && text == "" {
					text = l.Value
				}
				return true
			})
			if !strings.Contains(text, "assertion failed") {
				t.Errorf("%s: panic whose text does not say \"assertion failed\"", s.fset.Position(c.Pos()))
			}
			return true
		})
	}
}

func TestExportedThingsHaveComments(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
					t.Errorf("%s: %s has no comment", s.fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
						t.Errorf("%s: %s has no comment", s.fset.Position(ts.Pos()), ts.Name.Name)
					}
				}
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if x, ok := t.(*ast.IndexExpr); ok {
		t = x.X
	}
	id, ok := t.(*ast.Ident)
	// The methods that every error, flag or interface value has explain themselves.
	return ok && id.IsExported() && d.Name.Name != "Error" && d.Name.Name != "Unwrap" && d.Name.Name != "String"
}

// TestPackagesHaveDocumentation: each package says what it is for.
func TestPackagesHaveDocumentation(t *testing.T) {
	has := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		dir := filepath.Dir(s.path)
		has[dir] = has[dir] || s.file.Doc != nil
	}
	for dir, ok := range has {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// TestFilesAreShort: a file of more than 600 lines usually hides two things.
func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(s.path)))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > 600 {
			t.Errorf("%s has %d lines", s.path, n)
		}
	}
}
