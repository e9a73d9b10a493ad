package shared

import (
	"fmt"

	"sluice/executor/state"
	"sluice/executor/state/internal/format"
)

// sinkLog is the log of one sink as one opening has it.
type sinkLog struct {
	log
	kept   commit
	record []byte // memory
}

// OpenSink is that of state.Together.
func (s *Store) OpenSink(sink string, gen int64) (state.SinkLog, int64, []byte, error) {
	if err := s.ready("a sink", sink, gen); err != nil {
		return nil, 0, nil, err
	}
	l := &sinkLog{kept: commit{name: sink}}
	s.prepare(&l.log, sinksDir, sink)
	if err := openLog(&l.log, gen, l.replay, l.base); err != nil {
		return nil, 0, nil, err
	}
	epoch, witness := l.kept.last()
	return l, epoch, witness, nil
}

func (l *sinkLog) replay(payload []byte) error {
	x, err := decodePayload(payload)
	if err != nil {
		return err
	}
	if x.Kind != format.KindCommit || x.Name != l.kept.name {
		return fmt.Errorf("%w: a record of kind %d and name %q in the log of sink %q", format.ErrPayload, x.Kind, x.Name, l.kept.name)
	}
	if err := l.kept.check(x.At, x.Rest); err != nil {
		return err
	}
	l.kept.set(x.At, x.Rest)
	return nil
}

func (l *sinkLog) base() []byte {
	if !l.kept.some {
		return nil
	}
	return format.AppendCommit(nil, l.kept.name, l.kept.epoch, l.kept.witness)
}

// Commit is that of state.SinkLog.
func (l *sinkLog) Commit(epoch int64, witness []byte) error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	if err := l.log.usable(); err != nil {
		return err
	}
	if err := l.kept.check(epoch, witness); err != nil {
		return err
	}
	if l.log.bulky(int64(len(l.kept.witness))) {
		if err := l.log.write(l.base(), false); err != nil {
			return err
		}
	}
	l.record = format.AppendCommit(l.record[:0], l.kept.name, epoch, witness)
	if err := l.log.append(l.record); err != nil {
		return err
	}
	l.kept.set(epoch, witness)
	l.log.appended.epoch = epoch
	return nil
}

// Close is that of state.SinkLog.
func (l *sinkLog) Close() error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	return l.log.close()
}
