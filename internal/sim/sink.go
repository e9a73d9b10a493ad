package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"sluice/dataflow/batch"
	"sluice/executor/state"
	"sluice/internal/protocol"
	"sluice/operators"
)

// published is what a sink has made visible, in one of two ways: as part files, or as one file that
// grows.
type published struct {
	name  string
	parts []part
	// single tells that there is one file. It holds what has been committed, and perhaps more.
	single bool
	file   []line
	synced int   // lines of it that outlive the machine
	owner  *host // who went on with the output last: the others are fenced
}

// part is a file that has been published under a name that nobody else can take.
type part struct {
	first, last int64
	lines       []line
}

// line is a row with the epoch to which it belongs.
type line struct {
	epoch int64
	text  string
}

// sink implements operators.Committer.
type sink struct {
	host   *host
	out    *published
	buffer []line // of epochs that have not been published
	epoch  []line // of the one that is being worked on
	next   int    // number of the part, or of the line of the file, that comes next
	since  int64  // the last epoch that is visible
}

func (w *world) newSink(h *host, c *operators.Context) operators.Operator {
	return &sink{host: h, out: w.sinks[c.Op.Name]}
}

// Process implements operators.Operator.
func (s *sink) Process(_ int, b *batch.Batch) error {
	for _, text := range texts(b) {
		s.epoch = append(s.epoch, line{text: text})
	}
	return nil
}

// texts gives each row of a batch.
func texts(b *batch.Batch) []string {
	var rows []string
	add := func(i int) {
		text := string(operators.AppendRow(nil, b, i))
		rows = append(rows, strings.ReplaceAll(text, string(large), "large"))
	}
	if b.Sel == nil {
		for i := range b.Len {
			add(i)
		}
	}
	for _, i := range b.Sel {
		add(int(i))
	}
	return rows
}

// EndEpoch implements operators.Operator.
func (s *sink) EndEpoch(m operators.Mark) error {
	if s.host.gone() {
		return nil
	}
	for i := range s.epoch {
		s.epoch[i].epoch = m.Epoch
	}
	if s.out.single {
		s.write()
	} else {
		s.buffer = append(s.buffer, s.epoch...)
	}
	s.epoch = nil
	return nil
}

// write writes the epoch's rows to the one file, at the place that comes next.
func (s *sink) write() {
	if !s.host.worker.world.on(protocol.Chain) {
		s.out.file = append(s.out.file, s.epoch...)
		s.next = len(s.out.file)
		return
	}
	for _, l := range s.epoch {
		if s.next < len(s.out.file) {
			s.out.file[s.next] = l
		} else {
			s.out.file = append(s.out.file, l)
		}
		s.next++
	}
}

// Recover implements operators.Committer.
func (s *sink) Recover(epoch int64, witness []byte) (int64, error) {
	switch w := s.host.worker.world; {
	case s.host.gone():
		return 0, errDead
	case w.chance(w.plan.DiskFails):
		return 0, errDisk
	}
	s.out.owner = s.host
	if s.out.single {
		if s.next = number(witness); s.next > len(s.out.file) {
			return 0, fmt.Errorf("sim: the file has %d lines, %d have been committed", len(s.out.file), s.next)
		}
		s.out.file = slices.Clone(s.out.file[:min(s.next, len(s.out.file))])
		s.out.synced = min(s.out.synced, len(s.out.file))
		s.since = epoch
		return epoch, nil
	}
	s.next = len(s.out.parts)
	s.since = epoch
	if s.next > 0 {
		s.since = max(epoch, s.out.parts[s.next-1].last)
	}
	return s.since, nil
}

func number(witness []byte) int {
	n, _ := binary.Uvarint(witness)
	return int(n)
}

// Commit implements operators.Committer.
func (s *sink) Commit(epoch int64, now bool) (witness []byte, ok bool, err error) {
	w := s.host.worker.world
	switch {
	case s.host.gone():
		return nil, false, errDead
	case !now && len(s.buffer) > 0 && w.chance(0.5):
		return nil, false, nil
	case w.chance(w.plan.DiskFails):
		return nil, false, errDisk
	case s.out.single && w.plan.Fsync != state.FsyncNever:
		if !now {
			return nil, false, nil // it is synced at checkpoints only
		}
		s.out.synced = max(s.out.synced, s.next)
	}
	if len(s.buffer) > 0 {
		if err := s.publish(epoch); err != nil {
			return nil, false, err
		}
	}
	s.since = max(s.since, epoch)
	if s.host.gone() {
		return nil, false, errDead
	}
	return binary.AppendUvarint(nil, uint64(s.next)), true, nil
}

// publish makes a part of what has been buffered. The process may end right after.
func (s *sink) publish(epoch int64) error {
	w := s.host.worker.world
	p := part{s.since + 1, epoch, s.buffer}
	if w.on(protocol.Chain) {
		if s.out.owner != s.host || s.next < len(s.out.parts) {
			return operators.ErrFenced
		}
		s.out.parts = append(s.out.parts, p)
	} else if i := slices.IndexFunc(s.out.parts, func(q part) bool { return q.first == p.first && q.last == p.last }); i >= 0 {
		s.out.parts[i] = p
	} else {
		s.out.parts = append(s.out.parts, p)
	}
	w.checks.published(w, s.out)
	w.progress()
	s.next, s.buffer = len(s.out.parts), nil
	if w.faults() && w.chance(w.plan.DiesWriting) {
		w.fault()
		s.host.worker.kill("right after publishing a part")
	}
	return nil
}

// machineDied takes what the file of a worker's sink has not on the disk. Of the rest the end may be torn. Part files
// are synced before they appear under their names.
func (p *published) machineDied(k *worker) {
	if !p.single || p.owner == nil || p.owner.worker != k || len(p.file) <= p.synced {
		return
	}
	w := k.world
	n := int(w.between(int64(p.synced), int64(len(p.file))))
	w.counts["rows of files lost with machines"] += len(p.file) - n
	p.file = slices.Clone(p.file[:n])
	if n > p.synced {
		p.file[n-1].text = "torn"
	}
}

// String tells what there is.
func (p *published) String() string {
	if p.single {
		return fmt.Sprintf("one file of %d rows", len(p.file))
	}
	text := "parts"
	for _, q := range p.parts {
		text += fmt.Sprintf(" %d-%d:%d", q.first, q.last, len(q.lines))
	}
	return text
}

// lines are all rows that are visible at the end, in order.
func (p *published) lines(committed []byte) ([]line, error) {
	if !p.single {
		var all []line
		for _, q := range p.parts {
			all = append(all, q.lines...)
		}
		return all, nil
	}
	n := number(committed)
	if n > len(p.file) {
		return nil, fmt.Errorf("%s: the file has %d lines, %d have been committed", p.name, len(p.file), n)
	}
	return p.file[:n], nil
}
