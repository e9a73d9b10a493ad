package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"sluice/operators/pending"
)

// namePlace stands for the name of a part in the parameter confirm.
const namePlace = "{name}"

// placeChecker looks for files in the places that a pattern names. A witness is confirmed if there is a file
// of its name, in the pattern's sense, that has at least its length.
type placeChecker struct {
	place   string
	folders *folders
}

// Check implements pending.Checker.
func (p *placeChecker) Check(witnesses []pending.Witness) ([]bool, error) {
	confirmed := make([]bool, len(witnesses))
	err := p.each(witnesses, func(i int, _ string, length int64) error {
		confirmed[i] = confirmed[i] || length >= witnesses[i].Length
		return nil
	})
	return confirmed, err
}

// removeIncomplete removes what there is of a file and is not all of it.
func (p *placeChecker) removeIncomplete(w pending.Witness) error {
	return p.each([]pending.Witness{w}, func(_ int, path string, length int64) error {
		if length >= w.Length {
			return nil
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// each calls f with every file that has the name of a witness, and its length. A folder is listed once for
// all of them.
func (p *placeChecker) each(witnesses []pending.Witness, f func(i int, path string, length int64) error) error {
	names := make(map[string][]*baseName)
	for i, w := range witnesses {
		dir, base := filepath.Split(strings.Replace(p.place, namePlace, quoteMeta(w.File), 1))
		names[dir] = append(names[dir], &baseName{i, base})
	}
	for pattern, wanted := range names {
		dirs, err := filepath.Glob(filepath.Clean(pattern))
		if err != nil {
			return fmt.Errorf("confirm: pattern %q: %w", p.place, err)
		}
		for _, dir := range dirs {
			if err := p.eachIn(dir, wanted, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// baseName is the pattern of the base name of witness i.
type baseName struct {
	i       int
	pattern string
}

func (p *placeChecker) eachIn(dir string, wanted []*baseName, f func(i int, path string, length int64) error) error {
	entries, err := p.folders.list(dir)
	if err != nil {
		return err
	}
	for _, name := range entries {
		for _, w := range wanted {
			if ok, _ := filepath.Match(w.pattern, name); !ok {
				continue
			}
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has gone on meanwhile
			}
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				continue
			}
			if err := f(w.i, path, info.Size()); err != nil {
				return err
			}
		}
	}
	return nil
}

// quoteMeta makes name stand for itself in a pattern.
func quoteMeta(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// folders lists folders for all writers of the process: only a few at a time, and one listing serves all that
// ask for the folder before it begins. So many writers with one archive do not become a load on it.
type folders struct {
	slots chan struct{} // one is taken by each listing
	read  func(dir string) ([]string, error)

	mu   sync.Mutex
	next map[string]*listing // that have not begun, by folder
}

// listing is what a folder holds.
type listing struct {
	done  chan struct{}
	names []string
	err   error
}

// checkers is how many folders a process lists at a time.
const checkers = 2

var sharedFolders = newFolders(checkers, readNames)

func newFolders(most int, read func(string) ([]string, error)) *folders {
	return &folders{slots: make(chan struct{}, most), read: read, next: map[string]*listing{}}
}

// list gives the names in a folder as it is at some time after the call; none if it is not there.
func (f *folders) list(dir string) ([]string, error) {
	f.mu.Lock()
	l, asked := f.next[dir]
	if !asked {
		l = &listing{done: make(chan struct{})}
		f.next[dir] = l
	}
	f.mu.Unlock()
	if asked {
		<-l.done
		return l.names, l.err
	}
	f.slots <- struct{}{}
	f.mu.Lock()
	delete(f.next, dir) // who asks now wants to see what comes to be there from now on
	f.mu.Unlock()
	l.names, l.err = f.read(dir)
	<-f.slots
	close(l.done)
	return l.names, l.err
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Close())
}
