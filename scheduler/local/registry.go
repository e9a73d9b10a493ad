package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Announce notes, for those who know the name of a query only, that it runs with the state in dir. The
// note is removed by withdraw.
func Announce(query, dir string) (withdraw func() error, err error) {
	notes, err := noteDir()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(notes, strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(path, []byte(query+"\n"+dir+"\n"), 0o600); err != nil {
		return nil, err
	}
	return func() error { return os.Remove(path) }, nil
}

// Find gives the directories of the runs of a query on this machine that have been announced by this user
// and still answer, in order.
func Find(query string) ([]string, error) {
	notes, err := noteDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(notes)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		path := filepath.Join(notes, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		name, dir, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), "\n")
		if name != query {
			continue
		}
		switch _, err := Ask(dir, Request{Query: query, Status: true}); {
		case errors.Is(err, ErrNoRun):
			_ = os.Remove(path) // it was killed
		case err == nil:
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs, nil
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
