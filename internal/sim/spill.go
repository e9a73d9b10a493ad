package sim

import (
	"fmt"
	"syscall"

	"sluice/executor/channel"
)

// retention is what the channels of a worker share. What its memory has no room for goes to files of its own, which
// have faults of their own.
func (k *worker) retention() *channel.Retention {
	w := k.world
	if w.plan.Memory == 0 {
		return nil
	}
	return channel.NewRetentionIn(w.plan.Memory, func() (channel.SpillFile, error) {
		if err := k.spills(); err != nil {
			return nil, err
		}
		return &spillFile{worker: k}, nil
	})
}

// spills tells whether the worker's disk takes anything now. When it is full it stays so for a while, and then has room
// for as long: where it never has, sources brake for ever, as they should.
func (k *worker) spills() error {
	w := k.world
	if w.now >= k.roomUntil && w.chance(w.plan.SpillFull) {
		k.fullUntil = w.now + w.between(0, 2*second)
		k.roomUntil = k.fullUntil + 2*second
	}
	if w.now < k.fullUntil {
		w.counts["spills that failed"]++
		return fmt.Errorf("sim: no room for retained rows: %w", syscall.ENOSPC)
	}
	return nil
}

// spillFile implements channel.SpillFile.
type spillFile struct {
	worker *worker
	bytes  []byte
}

// WriteAt implements channel.SpillFile. Of a write that fails some may have been done.
func (f *spillFile) WriteAt(b []byte, at int64) (int, error) {
	w := f.worker.world
	err := f.worker.spills()
	n := len(b)
	if err != nil {
		n = int(w.between(0, int64(n)))
	}
	if need := int(at) + n; need > len(f.bytes) {
		f.bytes = append(f.bytes, make([]byte, need-len(f.bytes))...)
	}
	copy(f.bytes[at:], b[:n])
	w.counts["spills"]++
	return n, err
}

// ReadAt implements channel.SpillFile. It may give other bytes than were written, or an error.
func (f *spillFile) ReadAt(b []byte, at int64) (int, error) {
	w := f.worker.world
	if at+int64(len(b)) > int64(len(f.bytes)) {
		w.fail("retained rows are read at %d, where nothing was written", at)
		return 0, syscall.EIO
	}
	copy(b, f.bytes[at:])
	w.counts["reads of spilled rows"]++
	if !w.chance(w.plan.SpillLost) {
		return len(b), nil
	}
	w.counts["spilled rows that were lost"]++
	if w.chance(0.5) {
		return 0, syscall.EIO
	}
	b[w.between(0, int64(len(b)-1))] ^= 0x10
	return len(b), nil
}

// Close implements channel.SpillFile.
func (f *spillFile) Close() error { return nil }
