package shared

import (
	"io/fs"
	"path/filepath"

	"sluice/executor/state/internal/format"
)

// Unused reports whether nothing has been written below dir but what Open makes: nobody has ever run a query with it.
func Unused(dir string) (bool, error) {
	unused := true
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path == filepath.Join(dir, tmpDir):
			return fs.SkipDir // what is there counts for nothing
		case e.IsDir(), path == filepath.Join(dir, format.SharedFile), path == filepath.Join(dir, format.LockFile):
			return nil
		}
		unused = false
		return fs.SkipAll
	})
	return unused && err == nil, wrap(err)
}
