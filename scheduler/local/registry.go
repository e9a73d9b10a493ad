package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Announce notes, for those who know the name of a query only, that it runs with the state in dir, where
// its Socket is open. The note is removed by withdraw, or by others after the run has been killed.
func Announce(query, dir string) (withdraw func() error, err error) {
	notes, err := noteDir()
	if err != nil {
		return nil, err
	}
	if _, err := found(notes); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(notes, "run-")
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteString(query + "\n" + dir + "\n"); err == nil {
		err = f.Close()
	}
	return func() error { return os.Remove(f.Name()) }, err
}

// Find gives the directories of the runs of a query on this machine that have been announced by this user
// and still answer, in order.
func Find(query string) ([]string, error) {
	notes, err := noteDir()
	if err != nil {
		return nil, err
	}
	runs, err := found(notes)
	if err != nil {
		return nil, err
	}
	dirs := runs[query]
	slices.Sort(dirs)
	return dirs, nil
}

// found gives the directories of the runs that have been announced and can be reached, by query. The notes
// of others are removed, unless they may be being written.
func found(notes string) (map[string][]string, error) {
	entries, err := os.ReadDir(notes)
	if err != nil {
		return nil, err
	}
	runs := map[string][]string{}
	for _, e := range entries {
		path := filepath.Join(notes, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		query, dir, _ := strings.Cut(string(text), "\n")
		dir, whole := strings.CutSuffix(dir, "\n")
		switch {
		case !whole:
		case reachable(dir):
			runs[query] = append(runs[query], dir)
		default:
			_ = os.Remove(path) // another one may have done so
		}
	}
	return runs, nil
}

// noteDir is this user's folder for notes.
func noteDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "sluice-"+strconv.Itoa(os.Getuid()))
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		dir = filepath.Join(runtime, "sluice")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%q must be a folder that only this user may use", dir)
	}
	return dir, nil
}
