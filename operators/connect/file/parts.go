package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sluice/operators"
)

// parts is a folder of part files. Each holds the rows of a run of epochs, and its name tells which:
// part-FIRST-LAST.csv. It gets its name when it is complete, and no other file may have it.
type parts struct {
	dir    string
	ending string
	first  int64 // first epoch of the part that is being written
	begun  int64 // clock of that epoch, microseconds; 0 until it has ended
	clock  int64 // of the epoch that ended last
	last   int64 // epoch that ended last
	size   countingTarget
	ready  bool // the folder is there, and is ours

	// Of a durable writer: the last epoch of the part that was published last. Its parts follow each other
	// without a gap, so that their names show whether one is missing or not ours.
	published int64
	work      string // its folder for parts that are not complete
	// ahead is set if parts are to outlive the machine: it brings the log of their epochs to the disk.
	ahead   func() error
	confirm *confirmation
}

// A part is complete at the end of the epoch in which it reaches partBytes or is older than partAge.
const (
	partPrefix = "part-"

	partBytes = 64 << 20
	partAge   = 10_000_000 // microseconds
)

// prepare makes the folder. Parts of another run in it are an error: theirs and ours could not be told
// from each other.
func (p *parts) prepare() error {
	if p.ready {
		return nil
	}
	if err := os.MkdirAll(p.dir, 0o777); err != nil {
		return err
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partPrefix) {
			return fmt.Errorf("folder %q already holds part files, such as %s; remove them or choose another folder", p.dir, e.Name())
		}
	}
	p.ready = true
	return nil
}

// prepareParts makes the folder ready, unless it is.
func (w *writer) prepareParts() error {
	if w.parts.ready {
		return nil
	}
	if err := w.claimFolder(); err != nil {
		return err
	}
	return w.parts.prepare()
}

// claimFolder makes the folder, and claims it.
func (w *writer) claimFolder() (err error) {
	if w.claim != nil {
		return nil
	}
	if err := os.MkdirAll(w.parts.dir, 0o777); err != nil {
		return err
	}
	w.claim, err = claimOutput(w.parts.dir, w.owner)
	return err
}

// countingTarget is a target that counts the bytes written to it.
type countingTarget struct {
	target
	n int64
}

func (t *countingTarget) Write(b []byte) (int, error) {
	n, err := t.target.Write(b)
	t.n += int64(n)
	return n, err
}

func (w *writer) beginPart() error {
	p := w.parts
	if p.confirm != nil && !w.durable {
		return &operators.InputError{Err: errors.New("confirm needs state, for it is there that is kept what has been confirmed: run the query with --state DIR")}
	}
	if err := w.prepareParts(); err != nil {
		return err
	}
	dir := p.dir
	if w.durable {
		dir = p.work
	}
	f, err := newFileTarget(filepath.Join(dir, "part"))
	if err != nil {
		return p.fenced(err)
	}
	p.size = countingTarget{target: f}
	p.first, p.begun = p.last+1, 0
	if w.durable {
		p.first = p.published + 1
	}
	w.target = &p.size
	return w.open()
}

// endPart ends an epoch, and with it the part if that is large or old enough. Of a durable writer only
// Commit ends parts.
func (w *writer) endPart(m operators.Mark) error {
	p := w.parts
	if err := w.prepareParts(); err != nil {
		return err
	}
	p.last, p.clock = m.Epoch, m.Clock
	if w.enc != nil {
		if p.begun == 0 {
			p.begun = m.Clock
		}
		if err := w.enc.Flush(); err != nil {
			return err
		}
		if p.full() && !w.durable {
			if err := w.finishPart(); err != nil {
				return err
			}
		}
	}
	if w.limit == 0 {
		return operators.ErrDone
	}
	return nil
}

// full reports whether the part is large or old enough.
func (p *parts) full() bool {
	return p.size.n >= partBytes || p.begun > 0 && p.clock-p.begun >= partAge
}

// finishPart completes the part and publishes it.
func (w *writer) finishPart() error {
	if err := w.enc.Finish(); err != nil {
		return err
	}
	w.enc = nil
	return w.parts.publish(w.target)
}

// closeParts ends a durable writer: what is not committed is not to be seen.
func (w *writer) closeParts(commit bool) error {
	var errs []error
	if w.enc != nil {
		f := w.parts.size.target.(*fileTarget)
		errs = append(errs, f.f.Close(), w.parts.drop(f.f.Name()))
	}
	if c := w.parts.confirm; c != nil {
		errs = append(errs, c.close(commit))
	}
	return errors.Join(append(errs, w.parts.leave())...)
}

// publish gives the part its name.
func (p *parts) publish(t target) error {
	f := t.(*countingTarget).target.(*fileTarget)
	err := errors.Join(p.syncPart(f.f), f.f.Close())
	if err == nil {
		err = p.link(f.f.Name())
	}
	if err == nil {
		err = p.syncNames()
	}
	return errors.Join(err, p.drop(f.f.Name()))
}
