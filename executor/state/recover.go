package state

import (
	"errors"
	"fmt"
	"os"

	"sluice/executor/state/internal/format"
)

// Cut tells of a record at the end of the log that was incomplete, so that Open cut it off.
type Cut struct {
	File   string // path of the segment
	Offset int64  // in it
	Bytes  int64  // that were cut off; 0 if there was no such record
}

// open reads the log into k and makes it ready to be written.
func (l *log) open(k *kept) (Cut, error) {
	numbers, err := segmentNumbers(l.dir)
	if err != nil {
		return Cut{}, l.wrap(err)
	}
	headers, stale, cut, err := l.usable(numbers)
	if err != nil {
		return Cut{}, err
	}
	for i, h := range headers {
		last := i == len(headers)-1
		if h.first != l.records && i > 0 {
			return Cut{}, l.damaged(h.number, fmt.Sprintf("begins with record %d, and the segment before it ends at %d", h.first, l.records))
		}
		c, err := l.read(h, last, k)
		if err != nil {
			return Cut{}, err
		}
		if c.Bytes > 0 {
			cut = c
		}
	}
	if err := l.removeAll(stale); err != nil {
		return Cut{}, err
	}
	l.synced = l.records
	if len(headers) > 0 {
		l.first, l.number = headers[0].number, headers[len(headers)-1].number
		l.file, err = openSegment(l.path(l.number), l.size, cut)
		if err != nil {
			return Cut{}, l.wrap(err)
		}
		return cut, nil
	}
	l.number, l.first, l.size = 1, 1, segmentHead
	l.file, err = l.begin(segmentHeader{number: 1}, nil)
	return cut, err
}

// openSegment opens the last segment and cuts it to size.
func openSegment(path string, size int64, cut Cut) (segmentFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if cut.Bytes > 0 && cut.File == path {
		if err := f.Truncate(size); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// usable returns the headers of the segments that make up the log, and those that a later base stands
// for. It removes a last one that was being created.
func (l *log) usable(numbers []uint64) (headers []segmentHeader, stale []uint64, cut Cut, err error) {
	for i := len(numbers) - 1; i >= 0; i-- {
		n := numbers[i]
		h, err := readSegmentHeader(l.dir, n)
		if errors.Is(err, errShortHeader) && i == len(numbers)-1 && (n == 1 || i > 0) {
			if cut, err = l.dropTorn(n); err != nil {
				return nil, nil, Cut{}, err
			}
			continue
		}
		if err != nil {
			return nil, nil, Cut{}, l.damaged(n, err)
		}
		if len(headers) > 0 && headers[0].number != n+1 {
			return nil, nil, Cut{}, l.damaged(headers[0].number, fmt.Sprintf("segment %d before it is missing", headers[0].number-1))
		}
		headers = append([]segmentHeader{h}, headers...)
		if h.base > 0 {
			return headers, numbers[:i], cut, nil
		}
	}
	if len(headers) > 0 && headers[0].number != 1 {
		return nil, nil, Cut{}, l.damaged(headers[0].number, fmt.Sprintf("segment %d before it is missing", headers[0].number-1))
	}
	return headers, nil, cut, nil
}

func (l *log) dropTorn(number uint64) (Cut, error) {
	info, err := os.Stat(l.path(number))
	if err == nil {
		err = os.Remove(l.path(number))
	}
	if err != nil {
		return Cut{}, l.wrap(err)
	}
	return Cut{File: l.path(number), Bytes: info.Size()}, nil
}

func (l *log) removeAll(numbers []uint64) error {
	for _, n := range numbers {
		if err := os.Remove(l.path(n)); err != nil {
			return l.wrap(err)
		}
	}
	return nil
}

// read replays one segment. A damaged record at the end of the last one is left out.
func (l *log) read(h segmentHeader, last bool, k *kept) (Cut, error) {
	b, err := format.ReadSegment(l.path(h.number))
	if err != nil {
		return Cut{}, l.damaged(h.number, err)
	}
	base := uint64(segmentHead) + h.base
	if base < h.base || base > uint64(len(b)) {
		return Cut{}, l.damaged(h.number, fmt.Sprintf("has %d bytes, and its base needs %d", len(b), base))
	}
	var malformed error
	end, n, err := format.Scan(b, segmentHead, func(payload []byte) error {
		x, err := format.DecodeEntry(payload)
		if err == nil {
			err = k.replay(&x)
		}
		malformed = err
		return err
	})
	var cut Cut
	switch {
	case err == nil:
	case malformed != nil || !last || uint64(end) < base || format.Follows(b[end+1:], isEntry):
		return Cut{}, l.damaged(h.number, fmt.Errorf("at offset %d: %w", end, err))
	default:
		cut = Cut{File: l.path(h.number), Offset: int64(end), Bytes: int64(len(b) - end)}
	}
	l.records = h.first + uint64(n)
	l.before += l.size
	l.size = int64(end)
	return cut, nil
}

func (l *log) damaged(number uint64, what any) error {
	return damaged(l.path(number), "this is no trace of a killed process: restore the state directory from a copy, or remove it to begin again", what)
}

func isEntry(payload []byte) bool {
	_, err := format.DecodeEntry(payload)
	return err == nil
}
