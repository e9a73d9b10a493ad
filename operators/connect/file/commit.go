package file

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/operators"
)

// A durable writer is one that Recover has been called of: its rows become visible epoch by epoch.
//
// One file, csv or ndjson, grows in place, and is cut to the length that was committed last when another
// process goes on, unless something else has written it meanwhile (see tail.go). A new state overwrites a file that is there already. Files in the other formats are
// complete only when they end, so they can be durable as part files alone.
//
// A part file is published by a link, which never overwrites (see fence.go). Parts are named by the epochs that they
// cover, without a gap from one to the next, so a part that was published just before the process ended,
// and not recorded, is known by its name: it is kept, and its epochs count as committed.
//
// Standard output, pipes and devices keep what they have been given: rows after the last commit come
// again when another process goes on. The header does not.

// CheckDurable reports why a writer cannot be durable. Relative paths are taken against dir. It is meant
// for the time before the query runs; the error is an operators.InputError.
func CheckDurable(op *dataflow.Operator, dir string) error {
	format, err := formatOf(op)
	if err != nil {
		return &operators.InputError{Err: err}
	}
	path := op.Value("path")
	if path == "-" || strings.HasSuffix(path, "/") || isText(format) {
		return nil
	}
	if info, err := os.Stat(resolvePath(dir, path)); err == nil && !info.Mode().IsRegular() {
		return nil
	}
	return &operators.InputError{Err: errNotGrowable(path, format)}
}

func errNotGrowable(path, format string) error {
	return fmt.Errorf("a file in format %s cannot grow, so with state it cannot be written as one file; to write part files into a folder use path %q and format %q",
		format, strings.TrimSuffix(path, filepath.Ext(path))+"/", format)
}

// witness is what is kept of a commit.
type witness struct {
	kind   byte  // of output
	rows   int64 // written so far
	length int64 // of one file, bytes
	part   int64 // last epoch of the last part file
	ending ending
}

// Kinds of output. Each is also the version of the witness's form.
const (
	oneFile    = 'F'
	oneFileOld = 'f' // without an ending
	partFiles  = 'p'
	stream     = 's'
)

func (w *writer) kind() byte {
	switch {
	case w.parts != nil:
		return partFiles
	case w.stream:
		return stream
	}
	return oneFile
}

func (x witness) encode() []byte {
	dst := []byte{x.kind}
	for _, n := range []int64{x.rows, x.length, x.part} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	if x.kind == oneFile {
		dst = x.ending.encode(dst)
	}
	return dst
}

var errWitness = errors.New("what the state says of the output is damaged, or of another version")

// parseWitness also gives what comes after it.
func parseWitness(src []byte, kind byte) (witness, []byte, error) {
	ending := kind == oneFile && src[0] == oneFile
	if src[0] != kind && (kind != oneFile || src[0] != oneFileOld) {
		return witness{}, nil, errors.New("the state is of another output: path has changed between one file, a folder of part files and standard output")
	}
	x := witness{kind: kind}
	src = src[1:]
	for _, to := range []*int64{&x.rows, &x.length, &x.part} {
		n, used := binary.Uvarint(src)
		if used <= 0 || int64(n) < 0 {
			return witness{}, nil, errWitness
		}
		*to, src = int64(n), src[used:]
	}
	if ending {
		var err error
		x.ending, err = parseEnding(src)
		return x, nil, err
	}
	return x, src, nil
}

var _ operators.Undoer = (*writer)(nil)

// Undoes implements operators.Undoer.
func (w *writer) Undoes() bool { return !w.stream }

// Recover implements operators.Committer.
func (w *writer) Recover(epoch int64, mark []byte) (int64, error) {
	w.durable = true
	at, begun := witness{}, len(mark) > 0
	if !begun && epoch > 0 {
		return 0, errWitness
	}
	var more []byte
	if begun {
		var err error
		if at, more, err = parseWitness(mark, w.kind()); err != nil {
			return 0, err
		}
		if confirming := w.parts != nil && w.parts.confirm != nil; confirming != (len(more) > 0) {
			return 0, errors.New("the state is of another output: confirm has been set or left out")
		}
	}
	var err error
	switch w.kind() {
	case partFiles:
		epoch, err = w.recoverParts(epoch, &at, begun, more)
	case stream:
		if begun && isText(w.format) {
			w.opts.Header = false
			err = w.open()
		}
	default:
		err = w.recoverFile(at)
	}
	w.rows, w.lastWitness = at.rows, at
	if w.limit >= 0 {
		w.limit = max(0, w.limit-at.rows)
	}
	return epoch, err
}

// recoverFile goes on with one file behind what has been committed.
func (w *writer) recoverFile(at witness) error {
	tmp := w.target.(*fileTarget)
	w.target, w.enc = nil, nil
	if err := tmp.abort(); err != nil {
		return err
	}
	if !isText(w.format) { // rows cannot be added to what is complete
		return errNotGrowable(tmp.path, w.format)
	}
	t, claimed, err := openGrowing(tmp.path, w.owner, at)
	if err != nil {
		return err
	}
	w.target, w.claim = t, claimed
	w.opts.Header = w.opts.Header && at.length == 0
	return w.open()
}

// growingTarget is a file to which rows are added in place.
type growingTarget struct {
	f         *os.File
	size      int64 // bytes written
	committed int64 // of them
	named     bool  // the disk has its name
	tail      tail
	number    uint64 // that the file system has given it
}

// openClaimed opens a file, makes it if it is not there, and claims it.
func openClaimed(path, owner string) (*os.File, *claim, error) {
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return nil, nil, fmt.Errorf("output %q: %w", path, err)
		}
		c, err := claimOutput(path, owner)
		if err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
		if c.of(f) {
			return f, c, nil
		}
		if err := errors.Join(f.Close(), c.release()); err != nil {
			return nil, nil, err
		}
	}
}

func openGrowing(path, owner string, at witness) (*growingTarget, *claim, error) {
	f, claimed, err := openClaimed(path, owner)
	if err != nil {
		return nil, nil, err
	}
	t := &growingTarget{f: f, size: at.length, committed: at.length}
	if err := t.goOn(path, at); err != nil {
		return nil, nil, errors.Join(err, f.Close(), claimed.release())
	}
	return t, claimed, nil
}

// goOn cuts the file to what has been committed, if it still begins with that.
func (t *growingTarget) goOn(path string, at witness) error {
	info, err := t.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < at.length {
		return fmt.Errorf("output %q has %d bytes, but %d have been committed: put it back as it was, or start anew with another state directory", path, info.Size(), at.length)
	}
	t.number = fileNumber(info)
	if t.tail, err = readTail(path, at.length); err != nil {
		return err
	}
	if err := t.tail.check(path, info, at); err != nil {
		return err
	}
	return t.f.Truncate(at.length)
}

// Write writes behind what has been written, whatever else the file has grown by.
func (t *growingTarget) Write(p []byte) (int, error) {
	n, err := t.f.WriteAt(p, t.size)
	t.size += int64(n)
	t.tail.add(p[:n])
	return n, err
}

func (t *growingTarget) commit() error { return t.f.Close() }

func (t *growingTarget) abort() error { return errors.Join(t.f.Truncate(t.committed), t.f.Close()) }

// Written implements operators.Counting.
func (w *writer) Written() int64 { return w.rows }

// Commit implements operators.Committer.
func (w *writer) Commit(epoch int64, now bool) ([]byte, bool, error) {
	at := witness{kind: w.kind(), rows: w.rows}
	if w.parts != nil {
		return w.commitParts(at, epoch, now)
	}
	pass := w.enc.Flush
	if isText(w.format) {
		pass = w.enc.Finish // adds the header, if there has been no row yet, and nothing else
	}
	if err := closed(pass()); err != nil {
		return nil, false, err
	}
	if t, ok := w.target.(*growingTarget); ok {
		if w.sync && t.size > t.committed {
			if !now {
				return nil, false, nil
			}
			if err := t.sync(); err != nil {
				return nil, false, err
			}
		}
		t.committed, at.length = t.size, t.size
		at.ending = ending{true, t.tail.sum(), t.number}
	}
	return at.encode(), true, nil
}

func (w *writer) commitParts(at witness, epoch int64, now bool) ([]byte, bool, error) {
	p, c := w.parts, w.parts.confirm
	p.last = max(p.last, epoch)
	if w.enc != nil && !now && !p.full() {
		return nil, false, nil
	}
	if c != nil {
		if err := c.committing(); err != nil {
			return nil, false, err
		}
	}
	if w.enc != nil {
		if err := w.finishPart(); err != nil {
			return nil, false, err
		}
	}
	at.part = p.published
	w.lastWitness = at
	if c == nil {
		return at.encode(), true, nil
	}
	witness, err := c.committed(epoch, at.encode(), now)
	return witness, err == nil, err
}

// recoverParts removes parts that are not published and looks which are. One that has been published
// after the commit at is added to it. begun says that a writer of the same state has used the folder. more is
// what the commit has of parts that are to be confirmed.
func (w *writer) recoverParts(epoch int64, at *witness, begun bool, more []byte) (int64, error) {
	p := w.parts
	if err := w.claimFolder(); err != nil {
		return 0, err
	}
	if !begun {
		if err := p.prepare(); err != nil {
			return 0, err
		}
	}
	if err := p.fence(); err != nil {
		return 0, err
	}
	found, err := p.find()
	if err != nil {
		return 0, err
	}
	p.ready = true
	p.published = at.part
	if p.confirm != nil {
		if !begun && p.confirm.begun() {
			return 0, fmt.Errorf("folder %q holds part files of another state, in %s; remove them or choose another folder", p.dir, keptFolder)
		}
		err := p.confirm.recover(more, epoch, func(k keptPart) error { return w.adopt(at, k.partName, p.confirm.path(k)) })
		if err != nil {
			return 0, err
		}
	}
	for _, x := range found {
		switch {
		case x.last <= p.published:
		case x.first != p.published+1 || p.confirm != nil: // of those to be confirmed the kept copies tell
			return 0, fmt.Errorf("folder %q holds %s, but the state knows of parts up to epoch %d only: remove what is not of this query, or start anew with another state directory and folder",
				p.dir, x.name, p.published)
		default:
			if err := w.adopt(at, x, filepath.Join(p.dir, x.name)); err != nil {
				return 0, err
			}
		}
	}
	p.last = max(epoch, p.published)
	return p.last, nil
}

// adopt adds a part that has been published to what is committed.
func (w *writer) adopt(at *witness, x partName, path string) error {
	rows, err := w.countRows(path)
	if err != nil {
		return err
	}
	at.rows += rows
	at.part, w.parts.published = x.last, x.last
	return nil
}

// partName is the name of a part file and what it says.
type partName struct {
	name        string
	first, last int64
}

// find removes the temporary files of parts and lists the published ones, in order.
func (p *parts) find() ([]partName, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, err
	}
	var found []partName
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, ".sluice-part-"):
			if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
				return nil, err
			}
		case strings.HasPrefix(name, partPrefix):
			x, err := p.parseName(name)
			if err != nil {
				return nil, err
			}
			found = append(found, x)
		}
	}
	slices.SortFunc(found, func(a, b partName) int { return int(a.first - b.first) })
	return found, nil
}

func (p *parts) parseName(name string) (partName, error) {
	x := partName{name: name}
	n, err := fmt.Sscanf(strings.TrimSuffix(name, p.ending), partPrefix+"%d-%d", &x.first, &x.last)
	if n != 2 || err != nil || !strings.HasSuffix(name, p.ending) || x.last < x.first {
		return x, fmt.Errorf("folder %q holds %s, which this query has not written: remove it or choose another folder", p.dir, name)
	}
	return x, nil
}

// countRows counts the rows of a part file.
func (w *writer) countRows(path string) (int64, error) {
	in, err := openInput(path, w.format, nil)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	dec, err := newDecoder(in, w.format, DecodeOptions{Name: path, Schema: w.opts.Schema, Header: w.opts.Header, Delimiter: w.opts.Delimiter, Workers: 1})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	defer dec.Close()
	rows := int64(0)
	for {
		c, err := dec.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		rows += int64(c.Batch.Len + len(c.Bad))
	}
}
