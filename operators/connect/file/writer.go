package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// Writer describes the operator type "writer".
var Writer = &dataflow.Descriptor{
	Name: "writer",
	Doc:  "Writes rows to a file, to part files in a folder or to standard output.",
	Params: []dataflow.ParamDesc{
		{Name: "path", Type: dataflow.PathParam, Default: "-", Doc: "Where to write: - is standard output; a name that ends in / is a folder of part files; anything else is one file."},
		{Name: "format", Type: dataflow.EnumParam, Values: formats, Doc: "Format of the rows; by default it follows from the file's ending, and standard output and folders are csv."},
		{Name: "header", Type: dataflow.BoolParam, Default: "true", Doc: "CSV: begin with a row of the column names."},
		{Name: "delimiter", Type: dataflow.TextParam, Default: ",", Doc: `CSV: the character between fields; \t is a tab.`},
		confirmParams[0], confirmParams[1],
	},
	MinInputs: 1, MaxInputs: 1,
	Check: checkWriter,

	Deterministic: true,
}

func checkWriter(c *dataflow.Check) []*dataflow.Schema {
	if _, err := formatOf(c.Op); err != nil {
		c.ParamErrorf("path", 0, "", "%s", err)
	}
	if _, err := delimiterOf(c.Op); err != nil {
		c.ParamErrorf("delimiter", 0, "", "%s", err)
	}
	if path := c.Op.Value("path"); compression(path) != "" {
		c.ParamErrorf("path", 0, "", "a writer does not compress; write %q and compress it afterwards", strings.TrimSuffix(path, compression(path)))
	}
	checkConfirm(c)
	return nil
}

// writer is a running writer to one file or standard output, or to part files.
type writer struct {
	ctx    *operators.Context
	format string
	opts   EncodeOptions
	target target
	enc    Encoder // nil until there is something to write, for part files
	parts  *parts  // nil for one file
	limit  int64   // rows that may still be written; negative: any number
	rows   int64   // that have been written, before Recover too
	stream bool    // pass on what an epoch wrote when it ends
	// durable is set by Recover: only Commit makes rows visible.
	durable     bool
	sync        bool    // the disk must have what is committed
	owner       string  // in whose name outputs are claimed; "" for none
	claim       *claim  // of one file that grows, or of the folder
	lastWitness witness // what Commit has returned last
	sel         []int32
	out         batch.Batch
}

// WriterOptions say what a writer has to know beside the spec.
type WriterOptions struct {
	// Limit is the most rows that it writes; negative: any number.
	Limit int64
	// Owner tells the query from all others that may run, however often it is started again: its state, say. With one, the
	// output is claimed, so that no two queries write it. Without one, claims of others hold all the same.
	Owner string
}

// OpenWriter makes a running writer.
func OpenWriter(ctx *operators.Context, opts WriterOptions) (operators.Operator, error) {
	op := ctx.Op
	format, err := formatOf(op)
	if err != nil {
		return nil, err
	}
	o := EncodeOptions{Schema: op.Inputs[0].Schema, Header: op.Value("header") == "true"}
	if o.Delimiter, err = delimiterOf(op); err != nil {
		return nil, err
	}
	path := op.Value("path")
	w := &writer{ctx: ctx, format: format, opts: o, limit: opts.Limit}
	if opts.Owner != "" {
		w.owner = opts.Owner + "\x00" + op.Name
	}
	if strings.HasSuffix(path, "/") {
		w.parts = &parts{dir: resolvePath(ctx.Dir, path), ending: "." + format}
		if op.Value("confirm") != "" {
			w.parts.confirm, err = newConfirmation(ctx, w.parts)
		}
		return w, err
	}
	if w.target, err = openTarget(resolvePath(ctx.Dir, path), w.owner); err != nil {
		return nil, err
	}
	_, w.stream = w.target.(*plainTarget)
	if err := w.open(); err != nil {
		return nil, errors.Join(err, w.target.abort())
	}
	return w, nil
}

// open makes the encoder that writes to the target.
func (w *writer) open() (err error) {
	w.enc, err = newEncoder(w.target, w.format, w.opts)
	return err
}

func newEncoder(w io.Writer, format string, o EncodeOptions) (Encoder, error) {
	switch format {
	case "ndjson":
		return newNDJSONEncoder(w, o)
	case "arrow":
		return newArrowEncoder(w, o)
	case "parquet":
		return newParquetEncoder(w, o)
	}
	return newCSVEncoder(w, o)
}

// Process implements operators.Operator.
func (w *writer) Process(_ int, b *batch.Batch) error {
	if w.limit >= 0 {
		if w.limit == 0 {
			return operators.ErrDone
		}
		b = w.first(b, w.limit)
		w.limit -= int64(b.Rows())
	}
	w.rows += int64(b.Rows())
	if w.enc == nil {
		if err := w.beginPart(); err != nil {
			return err
		}
	}
	err := closed(w.enc.Encode(b))
	if err == nil {
		w.ctx.Counters.Out.Add(int64(b.Rows()))
	}
	return err
}

// first is b with at most n rows.
func (w *writer) first(b *batch.Batch, n int64) *batch.Batch {
	if int64(b.Rows()) <= n {
		return b
	}
	w.out = *b
	if b.Sel != nil {
		w.out.Sel = b.Sel[:n]
		return &w.out
	}
	w.sel = w.sel[:0]
	for i := range int32(n) {
		w.sel = append(w.sel, i)
	}
	w.out.Sel = w.sel
	return &w.out
}

// EndEpoch implements operators.Operator.
func (w *writer) EndEpoch(m operators.Mark) error {
	if w.parts != nil {
		return w.endPart(m)
	}
	if w.stream {
		if err := closed(w.enc.Flush()); err != nil {
			return err
		}
	}
	if w.limit == 0 {
		return operators.ErrDone
	}
	return nil
}

// Close implements operators.Closer.
func (w *writer) Close(commit bool) (err error) {
	defer func() { err = errors.Join(err, w.claim.release()) }()
	if w.parts != nil && w.durable {
		return w.closeParts(commit)
	}
	if w.enc == nil {
		return nil
	}
	if !commit || w.durable && !w.stream {
		return w.target.abort()
	}
	if err := closed(w.enc.Finish()); err != nil {
		err = errors.Join(err, w.target.abort())
		if errors.Is(err, operators.ErrDone) {
			return nil
		}
		return err
	}
	if w.parts != nil {
		return w.parts.publish(w.target)
	}
	return w.target.commit()
}

// closed turns the error of an output that nobody reads any more into operators.ErrDone.
func closed(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return operators.ErrDone
	}
	return err
}

// target is where an encoder writes. It ends with either commit or abort.
type target interface {
	io.Writer
	// commit makes what was written visible.
	commit() error
	// abort throws it away, as far as that is possible.
	abort() error
}

func openTarget(path, owner string) (target, error) {
	if path == "-" {
		return &plainTarget{f: os.Stdout}, nil
	}
	real := linkTarget(path)
	info, err := os.Stat(real)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("output %q is a folder; end its name with / to write part files into it", path)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(real, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &plainTarget{f: f, close: true}, nil
	}
	t, err := newFileTarget(real)
	if err != nil {
		return nil, err
	}
	t.owner = owner
	if err := t.free(); err != nil {
		return nil, errors.Join(err, t.abort())
	}
	return t, nil
}

// linkTarget follows symbolic links, also one to a file that is not there yet.
func linkTarget(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	to, err := os.Readlink(path)
	if err != nil {
		return path
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	return to
}

// plainTarget is standard output, a pipe or a device: what is written is out.
type plainTarget struct {
	f     *os.File
	close bool
}

func (t *plainTarget) Write(p []byte) (int, error) { return t.f.Write(p) }

func (t *plainTarget) commit() error {
	if t.close {
		return t.f.Close()
	}
	return nil
}

func (t *plainTarget) abort() error { return t.commit() }

// fileTarget is a file that has a temporary name until it is complete.
type fileTarget struct {
	f     *os.File
	path  string
	owner string // who may have claimed what is there
}

// free makes sure that nobody else writes the file that is to be replaced.
func (t *fileTarget) free() error {
	c, err := claimOutput(t.path, t.owner)
	return errors.Join(err, c.release())
}

func newFileTarget(path string) (*fileTarget, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".sluice-"+filepath.Base(path)+"-*")
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("output %q: there is no folder %q", path, filepath.Dir(path))
		}
		return nil, fmt.Errorf("output %q: %w", path, err)
	}
	mode := os.FileMode(0o666) &^ umask
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := f.Chmod(mode); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &fileTarget{f: f, path: path}, nil
}

// umask is read once, while nothing else runs: it can only be read by setting it.
var umask = func() os.FileMode {
	old := syscall.Umask(0)
	syscall.Umask(old)
	return os.FileMode(old)
}()

func (t *fileTarget) Write(p []byte) (int, error) { return t.f.Write(p) }

func (t *fileTarget) commit() error {
	err := t.f.Close()
	if err == nil {
		err = t.free()
	}
	if err == nil {
		err = os.Rename(t.f.Name(), t.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(t.f.Name()))
	}
	return nil
}

func (t *fileTarget) abort() error {
	return errors.Join(t.f.Close(), os.Remove(t.f.Name()))
}
