package format

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// MaxSegment bounds what is read of a segment into memory, in bytes.
const MaxSegment = 1 << 30

// searchBudget bounds the bytes that are summed in search of a record behind a damaged one.
const searchBudget = 1 << 30

// ReadSegment reads a whole segment.
func ReadSegment(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > MaxSegment {
		return nil, fmt.Errorf("is no segment: not a regular file, or larger than %d bytes", MaxSegment)
	}
	b := make([]byte, info.Size())
	n, err := io.ReadFull(f, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return b[:n], err
}

// Scan calls each for the payload of one record after the other, up to the end of b or to the first
// that is damaged. It returns where it stopped and how many records lie before.
func Scan(b []byte, from int, each func(payload []byte) error) (end, records int, err error) {
	for end = from; end < len(b); records++ {
		payload, err := Payload(b[end:])
		if err == nil {
			err = each(payload)
		}
		if err != nil {
			return end, records, err
		}
		end += RecordHead + len(payload)
	}
	return end, records, nil
}

// Follows tells whether there is a record whose payload is valid anywhere in b. A search that takes too long counts as
// if there were one, so that nothing is cut off in doubt.
func Follows(b []byte, valid func(payload []byte) bool) bool {
	budget := searchBudget
	for len(b) > RecordHead {
		n := int(min(binary.LittleEndian.Uint32(b), MaxPayload+1))
		if n > 0 && n <= MaxPayload && n <= len(b)-RecordHead {
			if budget -= n; budget < 0 {
				return true
			}
			if payload, err := Payload(b); err == nil && valid(payload) {
				return true
			}
		}
		b = b[1:]
	}
	return false
}
