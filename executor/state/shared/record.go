package shared

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"sluice/executor/state"
	"sluice/executor/state/internal/format"
)

// The coordinator's record is a chain of files, each of which is one version: the term under which it was
// saved, in a line, and the record. The highest number is the current one; whoever makes the next appear has
// replaced it. Only the highest is ever looked at, so that lower ones can be removed.

const recordKind = "record"

// keptVersions is how many versions stay, so that readers of the last one but one find it.
const keptVersions = 3

type version struct {
	number int64
	term   int64
	record []byte
}

// versions lists the numbers of the versions there are, in order.
func (s *Store) versions() ([]int64, error) {
	names, err := s.disk.names(recordDir)
	var list []int64
	for _, name := range names {
		if n, ok := parseNumber(name); ok && n > 0 {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, wrap(err)
}

func (s *Store) versionPath(n int64) string { return s.disk.path(recordDir, number(n)) }

// current reads the highest version.
func (s *Store) current() (version, error) {
	if s.closed.Load() {
		return version{}, state.ErrClosed
	}
	last := int64(0)
	for {
		list, err := s.versions()
		if err != nil || len(list) == 0 {
			return version{}, err
		}
		n := list[len(list)-1]
		v, err := s.readVersion(n)
		if !errors.Is(err, fs.ErrNotExist) || n <= last {
			return v, err
		}
		last = n // it was replaced and removed while it was being looked for
	}
}

func (s *Store) readVersion(n int64) (version, error) {
	path := s.versionPath(n)
	text, err := format.ReadSealed(path, recordKind)
	if errors.Is(err, fs.ErrNotExist) {
		return version{}, wrap(err)
	}
	if err != nil {
		return version{}, damaged(path, err)
	}
	head, record, ok := bytes.Cut(text, []byte("\n"))
	term, err := strconv.ParseInt(string(head), 10, 64)
	if !ok || err != nil || term < 0 {
		return version{}, damaged(path, errors.New("has no term"))
	}
	return version{n, term, record}, nil
}

// replace makes the version after v appear.
func (s *Store) replace(v version, term int64, record []byte) (int64, error) {
	n := v.number + 1
	text := append(strconv.AppendInt(nil, term, 10), '\n')
	err := s.disk.putSealed(s.versionPath(n), recordKind, append(text, record...), true)
	if errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("%w: version %d is there already", ErrSuperseded, n)
	}
	if err != nil {
		return 0, wrap(err)
	}
	list, err := s.versions()
	if err != nil {
		return 0, err
	}
	if last := list[len(list)-1]; last > n {
		// The version of this number has been removed long ago, or has just been replaced.
		return 0, fmt.Errorf("%w: version %d is there already", ErrSuperseded, last)
	}
	for len(list) > keptVersions {
		// What cannot be removed now is removed by the next Save.
		_ = remove(s.versionPath(list[0]))
		list = list[1:]
	}
	return n, nil
}

// Load is that of State.
func (s *Store) Load() (record []byte, number int64, err error) {
	v, err := s.current()
	if err != nil || len(v.record) == 0 {
		return nil, v.number, err
	}
	return v.record, v.number, nil
}

// Claim is that of State. Whoever saves meanwhile under a lower term only delays it.
func (s *Store) Claim(term int64) error {
	for {
		v, err := s.current()
		if err != nil {
			return err
		}
		if term <= v.term {
			return fmt.Errorf("%w: term %d is claimed, and %d is not above it", ErrSuperseded, v.term, term)
		}
		_, err = s.replace(v, term, v.record)
		if err == nil {
			s.term.Store(term)
		}
		if !errors.Is(err, ErrSuperseded) {
			return err
		}
	}
}

// Save is that of State.
func (s *Store) Save(record []byte, number int64) (int64, error) {
	v, err := s.current()
	if err != nil {
		return 0, err
	}
	term := s.term.Load()
	if err := checkSave(v, term, number); err != nil {
		return 0, err
	}
	return s.replace(v, term, record)
}

// checkSave tells whether the record v may be replaced by one who has claimed term and knows the version number.
func checkSave(v version, term, number int64) error {
	switch {
	case term == 0:
		return assertion("a record is saved before a term is claimed")
	case v.term != term:
		return fmt.Errorf("%w: term %d is claimed, and this one has %d", ErrSuperseded, v.term, term)
	case v.number != number:
		return fmt.Errorf("%w: the record has version %d, and this one knows %d", ErrSuperseded, v.number, number)
	}
	return nil
}
