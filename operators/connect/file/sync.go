package file

import (
	"errors"
	"os"
	"path/filepath"

	"sluice/operators"
)

// What a writer has committed outlives the machine if SyncCommits has been called. One file is synced at the
// epochs that must be committed, and others are left to them, since a sync takes as long as very many rows. A part
// is synced before it gets its name, and its name before the part counts as committed; as it can be told from its
// name alone which epochs it holds, the log of these epochs is brought to the disk first.

var _ operators.Syncer = (*writer)(nil)

// SyncCommits implements operators.Syncer.
func (w *writer) SyncCommits(ahead func() error) {
	w.sync = true
	if w.parts != nil {
		w.parts.ahead = ahead
	}
}

// sync brings what has been written to the disk.
func (t *growingTarget) sync() error {
	if err := t.f.Sync(); err != nil {
		return err
	}
	if t.named {
		return nil
	}
	t.named = true
	return syncDir(filepath.Dir(t.f.Name()))
}

// syncPart brings a part, and the log of its epochs, to the disk.
func (p *parts) syncPart(f *os.File) error {
	if p.ahead == nil {
		return nil
	}
	if err := p.ahead(); err != nil {
		return err
	}
	return f.Sync()
}

// syncNames brings the names of parts to the disk.
func (p *parts) syncNames() error {
	if p.ahead == nil {
		return nil
	}
	err := syncDir(p.dir)
	if err == nil && p.confirm != nil {
		err = syncDir(p.confirm.kept)
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
