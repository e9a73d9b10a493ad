package shared

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/executor/state"
	"sluice/executor/state/internal/format"
)

// sourceLog is the log of one source as one opening has it.
type sourceLog struct {
	log
	kept   entries
	rows   rows
	record []byte // memory
}

// OpenSource is that of state.Together. The log is a state.RowLog.
func (s *Store) OpenSource(source string, gen int64) (state.SourceLog, []state.Epoch, error) {
	if err := s.ready("a source", source, gen); err != nil {
		return nil, nil, err
	}
	l := &sourceLog{kept: entries{name: source}}
	s.prepare(&l.log, sourcesDir, source)
	if err := openLog(&l.log, gen, l.replay, l.base); err != nil {
		return nil, nil, err
	}
	if n := len(l.kept.list); n > 0 {
		l.log.appended.epoch = l.kept.list[n-1].Epoch.Epoch
		l.log.synced = l.log.appended // openLog has written the file anew
	}
	l.rows.open(&l.log)
	// What cannot be removed now the next Trim removes.
	_ = l.rows.removeOthers(l.kept.list)
	return l, l.kept.epochs(), nil
}

func (l *sourceLog) replay(payload []byte) error {
	x, err := decodePayload(payload)
	if err != nil {
		return err
	}
	switch x.Kind {
	case format.KindEpoch:
		e := state.Epoch(x.Epoch)
		if err := l.kept.check(&e); err != nil {
			return err
		}
		l.kept.add(e, x.rows)
	case format.KindTrim:
		l.kept.trim(x.At)
	default:
		return fmt.Errorf("%w: a record of kind %d in the log of a source", format.ErrPayload, x.Kind)
	}
	return nil
}

// base gives records that say all that is kept.
func (l *sourceLog) base() []byte {
	var b []byte
	for i := range l.kept.list {
		b = appendEntry(b, &l.kept.list[i].Epoch, l.kept.list[i].rows)
	}
	return b
}

func appendEntry(b []byte, e *state.Epoch, rows extent) []byte {
	if rows == (extent{}) {
		return format.AppendEpoch(b, (*format.Epoch)(e))
	}
	start := len(b)
	b = append(format.Begin(b), kindRows)
	for _, n := range []int64{rows.file.gen, rows.file.n, rows.file.number, rows.from, rows.to} {
		b = binary.AppendVarint(b, n)
	}
	inner := len(b)
	b = format.AppendEpoch(b, (*format.Epoch)(e))
	b = append(b[:inner], b[inner+format.RecordHead:]...)
	format.Seal(b, start)
	return b
}

// Append is that of state.SourceLog.
func (l *sourceLog) Append(e state.Epoch) error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	if err := l.log.usable(); err != nil {
		return err
	}
	if err := l.kept.check(&e); err != nil {
		return err
	}
	rows, err := l.rows.finish(e.Epoch)
	if err != nil {
		return err
	}
	l.record = appendEntry(l.record[:0], &e, rows)
	if err := l.log.append(l.record); err != nil {
		return err
	}
	l.kept.add(e, rows)
	l.log.appended.epoch = e.Epoch
	l.rows.counted()
	return nil
}

// Trim is that of state.SourceLog.
func (l *sourceLog) Trim(epoch int64) error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	if err := l.log.usable(); err != nil {
		return err
	}
	if err := l.log.check(); err != nil {
		return err
	}
	if l.kept.drops(epoch) > 0 {
		l.record = format.AppendTrim(l.record[:0], epoch)
		if err := l.log.append(l.record); err != nil {
			return err
		}
		l.kept.trim(epoch)
	}
	if l.log.bulky(l.liveSize()) {
		if err := l.log.write(l.base(), false); err != nil {
			return err
		}
	}
	return wrap(l.rows.removeOthers(l.kept.list))
}

// liveSize is about the size of base.
func (l *sourceLog) liveSize() int64 {
	n := int64(0)
	for i := range l.kept.list {
		n += int64(format.RecordHead + 32 + len(l.kept.name) + len(l.kept.list[i].Position))
	}
	return n
}

// AppendRows is that of state.RowLog.
func (l *sourceLog) AppendRows(epoch int64, rows []byte) error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	if err := l.log.usable(); err != nil {
		return err
	}
	if err := checkRows(&l.kept, epoch, rows); err != nil {
		return err
	}
	if err := l.log.check(); err != nil {
		return err
	}
	return l.rows.append(epoch, rows)
}

// checkRows tells whether rows may be appended.
func checkRows(kept *entries, epoch int64, rows []byte) error {
	switch n := len(kept.list); {
	case len(rows) > maxBlob:
		return assertion("source %q: rows of %d bytes, %d are possible", kept.name, len(rows), maxBlob)
	case epoch < 0 || n > 0 && epoch <= kept.list[n-1].Epoch.Epoch:
		return assertion("source %q: rows of epoch %d, which is below 0 or logged already", kept.name, epoch)
	}
	return nil
}

// Rows is that of state.RowLog.
func (l *sourceLog) Rows(epoch int64, f func(rows []byte) error) error {
	l.log.mu.Lock()
	closed, e := l.log.closed, l.kept.find(epoch)
	var at extent
	if e != nil {
		at = e.rows
	}
	l.log.mu.Unlock()
	switch {
	case closed:
		return state.ErrClosed
	case e == nil:
		return assertion("source %q: the rows of epoch %d, which is not kept", l.kept.name, epoch)
	case at == extent{}:
		return nil
	}
	return readRows(l.log.path(at.file.name()), epoch, at, f)
}

// Close is that of state.SourceLog.
func (l *sourceLog) Close() error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	return errors.Join(wrap(l.rows.close()), l.log.close())
}
