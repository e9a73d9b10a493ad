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
	begun  int64 // clock of that epoch, microseconds
	last   int64 // epoch that ended last
	size   countingTarget
}

// A part is complete at the end of the epoch in which it reaches partBytes or is older than partAge.
const (
	partBytes = 64 << 20
	partAge   = 10_000_000 // microseconds
)

// prepare makes the folder. Parts of another run in it are an error: theirs and ours could not be told
// from each other.
func (p *parts) prepare() error {
	if err := os.MkdirAll(p.dir, 0o777); err != nil {
		return err
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "part-") {
			return fmt.Errorf("folder %q already holds part files, such as %s; remove them or choose another folder", p.dir, e.Name())
		}
	}
	return nil
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
	f, err := newFileTarget(filepath.Join(p.dir, "part"))
	if err != nil {
		return err
	}
	p.size = countingTarget{target: f}
	p.first, p.begun = p.last+1, 0
	w.target = &p.size
	return w.open()
}

// endPart ends an epoch, and with it the part if that is large or old enough.
func (w *writer) endPart(m operators.Mark) error {
	p := w.parts
	p.last = m.Epoch
	if w.enc != nil {
		if p.begun == 0 {
			p.begun = m.Clock
		}
		if err := w.enc.Flush(); err != nil {
			return err
		}
		if p.size.n >= partBytes || m.Clock-p.begun >= partAge {
			if err := w.enc.Finish(); err != nil {
				return err
			}
			w.enc = nil
			if err := p.publish(w.target); err != nil {
				return err
			}
		}
	}
	if w.limit == 0 {
		return operators.ErrDone
	}
	return nil
}

// publish gives the part its name.
func (p *parts) publish(t target) error {
	f := t.(*countingTarget).target.(*fileTarget)
	name := filepath.Join(p.dir, fmt.Sprintf("part-%012d-%012d%s", p.first, max(p.first, p.last), p.ending))
	err := f.f.Close()
	if err == nil {
		err = os.Link(f.f.Name(), name)
	}
	return errors.Join(err, os.Remove(f.f.Name()))
}
