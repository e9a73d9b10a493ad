package state

import (
	"fmt"
	"slices"
	"sort"

	"sluice/executor/state/internal/format"
)

// Epoch is the entry of one epoch of one source in the epoch log.
type Epoch struct {
	Source    string
	Epoch     int64 // above that of the source's entry before
	Prev      int64 // the epoch before it, below Epoch; epoch 0 may have any
	Clock     int64 // microseconds since 1970, UTC
	Watermark int64 // after the epoch, microseconds since 1970
	Latest    int64 // largest event time so far, if Begun
	Begun     bool  // whether there has been a row with an event time
	Rows      int64 // read from the input in this epoch
	Idle      bool
	End       bool // the input has ended
	Stop      bool // the run was stopped after this epoch
	// Position is where the source stands after the epoch. An empty one is read back as nil.
	Position []byte
}

// kept is what the log means: the entries of its sources and the last commit of each sink.
type kept struct {
	sources map[string]*sourceEpochs
	sinks   map[string]*sinkCommit
	trimmed int64 // -1 before the first Trim
}

// sourceEpochs are the kept entries of a source, in order.
type sourceEpochs struct {
	name    string
	entries []Epoch
	arena   []byte // where the next positions go; never written over
}

type sinkCommit struct {
	epoch   int64
	witness []byte
}

// arenaSize is the size of the blocks that positions are copied to, so that an append has no memory
// of its own.
const arenaSize = 16 << 10

func newKept() *kept {
	return &kept{sources: map[string]*sourceEpochs{}, sinks: map[string]*sinkCommit{}, trimmed: -1}
}

// checkEpoch tells whether e may follow what is kept.
func (k *kept) checkEpoch(e *Epoch) error {
	switch src := k.sources[e.Source]; {
	case e.Source == "" || len(e.Source) > format.MaxName:
		return assertion("the source of an epoch has a name of %d bytes, not 1 to %d", len(e.Source), format.MaxName)
	case e.Epoch < 0:
		return assertion("source %q: epoch %d is below 0", e.Source, e.Epoch)
	case e.Epoch > 0 && e.Prev >= e.Epoch:
		return assertion("source %q: epoch %d says that the one before it is %d", e.Source, e.Epoch, e.Prev)
	case src != nil && e.Epoch <= src.last():
		return assertion("source %q: epoch %d after epoch %d", e.Source, e.Epoch, src.last())
	}
	return nil
}

func (k *kept) checkCommit(sink string, epoch int64) error {
	last := int64(-1) // epoch 0 is what a sink finds at the very beginning
	if c := k.sinks[sink]; c != nil {
		last = c.epoch
	}
	switch {
	case sink == "" || len(sink) > format.MaxName:
		return assertion("a sink has a name of %d bytes, not 1 to %d", len(sink), format.MaxName)
	case epoch < last:
		return assertion("sink %q: commit of epoch %d after one of epoch %d", sink, epoch, last)
	}
	return nil
}

// addEpoch adds a checked entry, whose memory it does not keep.
func (k *kept) addEpoch(e *Epoch) {
	src := k.sources[e.Source]
	if src == nil {
		src = &sourceEpochs{name: e.Source}
		k.sources[src.name] = src
	}
	own := *e
	own.Source = src.name
	own.Position = src.keep(e.Position)
	src.entries = append(src.entries, own)
}

func (k *kept) addCommit(sink string, epoch int64, witness []byte) {
	c := k.sinks[sink]
	if c == nil {
		c = &sinkCommit{}
		k.sinks[sink] = c
	}
	c.epoch, c.witness = epoch, append(c.witness[:0], witness...)
}

// trim forgets the entries that lie before the last one at or below epoch.
func (k *kept) trim(epoch int64) {
	if epoch <= k.trimmed {
		return
	}
	k.trimmed = epoch
	for _, src := range k.sources {
		src.trim(epoch)
	}
}

// replay adds an entry that has been read from the log.
func (k *kept) replay(x *format.Entry) error {
	switch x.Kind {
	case format.KindEpoch:
		if err := k.checkEpoch((*Epoch)(&x.Epoch)); err != nil {
			return err
		}
		k.addEpoch((*Epoch)(&x.Epoch))
	case format.KindCommit:
		if err := k.checkCommit(x.Name, x.At); err != nil {
			return err
		}
		k.addCommit(x.Name, x.At, x.Rest)
	case format.KindTrim:
		if x.At < 0 {
			return fmt.Errorf("%w: trimmed to epoch %d", format.ErrPayload, x.At)
		}
		k.trim(x.At)
	}
	return nil
}

// appendTo appends records that give all that is kept, in an order that is always the same.
func (k *kept) appendTo(b []byte) (_ []byte, records int) {
	b, records = format.AppendTrim(b, max(k.trimmed, 0)), 1
	for _, name := range sortedNames(k.sinks) {
		c := k.sinks[name]
		b = format.AppendCommit(b, name, c.epoch, c.witness)
		records++
	}
	for _, name := range sortedNames(k.sources) {
		for i := range k.sources[name].entries {
			b = format.AppendEpoch(b, (*format.Epoch)(&k.sources[name].entries[i]))
			records++
		}
	}
	return b, records
}

// size is about the number of bytes that appendTo appends.
func (k *kept) size() int64 {
	n := int64(0)
	for name, c := range k.sinks {
		n += int64(format.RecordHead + 8 + len(name) + len(c.witness))
	}
	for name, src := range k.sources {
		for i := range src.entries {
			n += int64(format.RecordHead + 32 + len(name) + len(src.entries[i].Position))
		}
	}
	return n
}

func (s *sourceEpochs) last() int64 { return s.entries[len(s.entries)-1].Epoch }

func (s *sourceEpochs) keep(position []byte) []byte {
	n := len(position)
	if n == 0 {
		return nil
	}
	if n > arenaSize/4 {
		return slices.Clone(position)
	}
	if n > cap(s.arena)-len(s.arena) {
		s.arena = make([]byte, 0, arenaSize)
	}
	from := len(s.arena)
	s.arena = append(s.arena, position...)
	return s.arena[from : from+n : from+n]
}

func (s *sourceEpochs) trim(epoch int64) {
	above := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].Epoch > epoch })
	if above <= 1 {
		return
	}
	left := s.entries[above-1:]
	// A copy, so that the memory of what went is free; the position of the first would keep a whole
	// block for as long as the source is idle.
	s.entries = append(make([]Epoch, 0, 2*len(left)), left...)
	s.entries[0].Position = slices.Clone(s.entries[0].Position)
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
