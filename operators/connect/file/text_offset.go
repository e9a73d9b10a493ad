package file

import (
	"errors"
	"fmt"
	"io"
)

// seeker is an input that can go on at another offset, from its beginning in bytes.
type seeker interface {
	seekTo(offset int64) error
}

var errHead = errors.New("the start of the input is not what it was when its rows were read")

// setBegun notes that the format has seen what stands before the first row.
func (d *textDecoder) setBegun() {
	d.begun = true
	head := append([]byte{}, d.format.head()...)
	d.head.Store(&head)
}

// left tells of a decoder that has returned an error where the first row began that it has not given, and
// the bytes that it has read from there on. ok is false if there may have been more of them.
func (d *textDecoder) left() (rest []byte, offset, line int64, ok bool) {
	return d.rest, d.offset, d.line, d.whole
}

// passOver makes the decoder begin with the row at d.from, having seen what stands before the first row.
func (d *textDecoder) passOver() error {
	if r := d.resume; r != nil {
		d.offset, d.line = d.from, max(d.fromLine, 1)
		if !r.Inside {
			return nil
		}
		if _, _, err := d.format.begin(r.Head, true); err != nil {
			return err
		}
		d.setBegun()
		return nil
	}
	head, err := d.readHead()
	if err != nil {
		return err
	}
	d.setBegun()
	d.offset, d.line = d.from, d.fromLine
	if s, ok := d.r.(seeker); ok {
		d.eof = false
		return s.seekTo(d.from)
	}
	if int64(len(head)) >= d.from {
		d.rest = append(d.rest[:0], head[d.from:]...)
		return nil
	}
	buf := head[:cap(head)]
	for left := d.from - int64(len(head)); left > 0; {
		n, err := d.read(buf[:min(left, int64(len(buf)))])
		left -= int64(n)
		if err == io.EOF && left > 0 {
			return fmt.Errorf("the input ends %d bytes before the place up to which it was read", left)
		}
		if err == io.EOF {
			d.eof = true
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readHead reads the input until its format has seen what it wants to see before the first row.
func (d *textDecoder) readHead() ([]byte, error) {
	head := make([]byte, 0, min(d.sizes.block, d.sizes.row))
	for {
		m, err := d.read(head[len(head):cap(head)])
		head = head[:len(head)+m]
		if err == io.EOF {
			d.eof = true
		} else if err != nil {
			return nil, err
		}
		n, ok, err := d.format.begin(head, d.eof)
		switch {
		case err != nil:
			return nil, err
		case ok && int64(n) > d.from:
			return nil, errHead
		case ok:
			return head, nil
		case d.eof || len(head) >= d.sizes.row:
			return nil, errHead
		case len(head) == cap(head):
			head = append(make([]byte, 0, min(2*cap(head), d.sizes.row)), head...)
		}
	}
}
