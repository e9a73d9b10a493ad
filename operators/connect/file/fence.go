package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sluice/operators"
)

// A durable writer of part files makes them in a work folder of its own inside the folder of the parts,
// and publishes a part by a link from there. The writer that goes on in its place removes the work folder, and
// looks which parts are published only then. The older one, if it still lives, has no file any more that
// it could link, and no folder to make one in: the kernel refuses to link a file that has no name. So
// the parts that the newer one has seen are all that the older one ever publishes, wherever in its steps
// it has stopped.

const workPrefix = ".sluice-work-"

// fence makes the writer's own work folder and removes those of all others.
func (p *parts) fence() error {
	work, err := os.MkdirTemp(p.dir, workPrefix+"*")
	if err != nil {
		return err
	}
	p.work = work
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), workPrefix) || e.Name() == filepath.Base(work) {
			continue
		}
		if err := removeWork(filepath.Join(p.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeWork removes the work folder of another writer, which may be making files in it.
func removeWork(path string) error {
	// Under another name nothing more finds its way into it, except for a file that is being made now.
	gone := filepath.Join(filepath.Dir(path), workPrefix+"gone"+strings.TrimPrefix(filepath.Base(path), workPrefix))
	if err := os.Rename(path, gone); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // yet another writer has removed it
		}
		return err
	}
	const tries = 10
	for n := 1; ; n++ {
		err := os.RemoveAll(gone)
		if err == nil || n == tries || !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
}

// fenced says of an error of a durable writer whether it is that another process has gone on.
func (p *parts) fenced(err error) error {
	if err == nil || p.work == "" {
		return err
	}
	_, gone := os.Stat(p.work)
	if errors.Is(gone, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("folder %q: %w", p.dir, operators.ErrFenced)
	}
	return err
}

// leave removes the writer's own work folder, which is empty unless it has failed.
func (p *parts) leave() error {
	if p.work == "" {
		return nil
	}
	return os.RemoveAll(p.work)
}

// link publishes the part of a temporary file.
func (p *parts) link(tmp string) error {
	last := max(p.first, p.last)
	name := fmt.Sprintf("%s%012d-%012d%s", partPrefix, p.first, last, p.ending)
	var err error
	if p.confirm != nil {
		err = p.confirm.publish(tmp, name, p.first, last)
	} else {
		err = os.Link(tmp, filepath.Join(p.dir, name))
	}
	if err != nil {
		return p.fenced(err)
	}
	p.published = last
	return nil
}

// drop removes a temporary file, which one that has gone on may have done before.
func (p *parts) drop(tmp string) error {
	if err := os.Remove(tmp); err != nil && !(p.work != "" && errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	return nil
}
