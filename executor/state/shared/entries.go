package shared

import (
	"slices"
	"sort"

	"sluice/executor/state"
	"sluice/executor/state/internal/format"
)

// maxBlob bounds positions, witnesses and rows, in bytes.
const maxBlob = format.MaxPayload / 2

// extent says where the rows of an epoch are: bytes from to to of a file of rows. The zero value is none.
type extent struct {
	file     rowFile
	from, to int64
}

// rowFile names a file of rows: the opening that has written it, and a number.
type rowFile struct {
	opening
	number int64
}

// entry is an epoch of a source with its rows.
type entry struct {
	state.Epoch
	rows extent
}

// entries are what is kept of the log of one source, in order.
type entries struct {
	name string
	list []entry
}

// check tells whether e may follow.
func (s *entries) check(e *state.Epoch) error {
	switch {
	case e.Source != s.name:
		return assertion("an epoch of source %q in the log of %q", e.Source, s.name)
	case e.Epoch < 0:
		return assertion("source %q: epoch %d is below 0", s.name, e.Epoch)
	case e.Epoch > 0 && e.Prev >= e.Epoch:
		return assertion("source %q: epoch %d says that the one before it is %d", s.name, e.Epoch, e.Prev)
	case len(s.list) > 0 && e.Epoch <= s.list[len(s.list)-1].Epoch.Epoch:
		return assertion("source %q: epoch %d after epoch %d", s.name, e.Epoch, s.list[len(s.list)-1].Epoch.Epoch)
	case len(e.Position) > maxBlob:
		return assertion("source %q: a position of %d bytes, %d are possible", s.name, len(e.Position), maxBlob)
	}
	return nil
}

// add adds a checked entry, whose memory it does not keep.
func (s *entries) add(e state.Epoch, rows extent) {
	e.Source = s.name
	e.Position = slices.Clone(e.Position)
	if len(e.Position) == 0 {
		e.Position = nil
	}
	s.list = append(s.list, entry{e, rows})
}

// drops tells how many entries lie before the last one at or below epoch.
func (s *entries) drops(epoch int64) int {
	above := sort.Search(len(s.list), func(i int) bool { return s.list[i].Epoch.Epoch > epoch })
	return max(above-1, 0)
}

// trim forgets the entries before the last one at or below epoch.
func (s *entries) trim(epoch int64) {
	if n := s.drops(epoch); n > 0 {
		s.list = slices.Clone(s.list[n:]) // so that the memory of what went is free
	}
}

func (s *entries) epochs() []state.Epoch {
	var list []state.Epoch
	for i := range s.list {
		list = append(list, s.list[i].Epoch)
	}
	return list
}

// find returns the entry of an epoch, nil if it is not kept.
func (s *entries) find(epoch int64) *entry {
	i, ok := slices.BinarySearchFunc(s.list, epoch, func(e entry, epoch int64) int {
		switch {
		case e.Epoch.Epoch < epoch:
			return -1
		case e.Epoch.Epoch > epoch:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &s.list[i]
}

// commit is the last one of a sink.
type commit struct {
	name    string
	some    bool // whether there is one
	epoch   int64
	witness []byte
}

func (c *commit) check(epoch int64, witness []byte) error {
	switch {
	case epoch < 0 || c.some && epoch < c.epoch:
		return assertion("sink %q: commit of epoch %d, which is below 0 or below epoch %d", c.name, epoch, c.epoch)
	case len(witness) > maxBlob:
		return assertion("sink %q: a witness of %d bytes, %d are possible", c.name, len(witness), maxBlob)
	}
	return nil
}

func (c *commit) set(epoch int64, witness []byte) {
	c.some, c.epoch, c.witness = true, epoch, append(c.witness[:0], witness...)
}

// last returns the commit. The witness is the caller's.
func (c *commit) last() (int64, []byte) {
	if len(c.witness) == 0 {
		return c.epoch, nil
	}
	return c.epoch, slices.Clone(c.witness)
}
