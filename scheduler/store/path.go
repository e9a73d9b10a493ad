package store

import (
	"fmt"
	"strings"
)

// Bounds of paths. They keep file names and znodes within what all systems take.
const (
	maxName  = 200 // bytes of a name
	maxDepth = 12  // names of a path
)

// checkPath says whether path is one that may hold a value.
func checkPath(path string) error {
	names := strings.Split(path, "/")
	if len(names) > maxDepth {
		return fmt.Errorf("%w: %q has more than %d names", ErrPath, path, maxDepth)
	}
	for _, n := range names {
		if !validName(n) {
			return fmt.Errorf("%w: %q: a name has 1 to %d letters, digits, dots, - and _, and is neither one dot nor two", ErrPath, path, maxName)
		}
	}
	return nil
}

// checkFolder says whether path may be listed.
func checkFolder(path string) error {
	if path == "" {
		return nil
	}
	return checkPath(path)
}

func validName(n string) bool {
	if n == "" || n == "." || n == ".." || len(n) > maxName {
		return false
	}
	for _, c := range []byte(n) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// checkPut says whether the value may be stored at the path.
func checkPut(path string, value []byte) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return fmt.Errorf("%w: the value of %q has %d bytes, %d are possible", ErrPath, path, len(value), MaxValue)
	}
	return nil
}

func checkAbout(about []byte) error {
	if len(about) > MaxAbout {
		return fmt.Errorf("%w: what a leader says of itself has %d bytes, %d are possible", ErrPath, len(about), MaxAbout)
	}
	return nil
}
