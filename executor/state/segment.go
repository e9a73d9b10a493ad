package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A segment is a file of the log: a header and records.
//
//	magic, 8 bytes | version, 4 | number of the segment, 8 | number of its first record in the log, 8 |
//	length of its base in bytes, 8 | CRC32C of these, 4
//
// All numbers are little-endian.
const (
	segmentMagic   = "sluicelg"
	segmentVersion = 1
	segmentHead    = 40
)

// maxSegment bounds what is read of a segment into memory, in bytes.
const maxSegment = 1 << 30

// searchBudget bounds the bytes that are summed in search of a record behind a damaged one.
const searchBudget = 1 << 30

const segmentSuffix = ".log"

type segmentHeader struct {
	number uint64
	first  uint64 // number of the first record, from 0
	// base is the length of the records that stand for all segments before this one. It is 0 if these
	// are still needed. A base is published whole, so no crash of a process can have cut it off.
	base uint64
}

func (h segmentHeader) append(b []byte) []byte {
	start := len(b)
	b = append(b, segmentMagic...)
	b = binary.LittleEndian.AppendUint32(b, segmentVersion)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, h.first)
	b = binary.LittleEndian.AppendUint64(b, h.base)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

var errShortHeader = errors.New("the header is cut off")

func decodeSegmentHeader(b []byte) (segmentHeader, error) {
	switch {
	case len(b) < segmentHead:
		return segmentHeader{}, errShortHeader
	case string(b[:8]) != segmentMagic:
		return segmentHeader{}, errors.New("is not a segment of a log")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != segmentVersion {
		return segmentHeader{}, fmt.Errorf("has version %d of the format, and this program knows version %d", v, segmentVersion)
	}
	if crc32.Checksum(b[:segmentHead-4], castagnoli) != binary.LittleEndian.Uint32(b[segmentHead-4:]) {
		return segmentHeader{}, errors.New("the header's checksum is wrong")
	}
	return segmentHeader{
		number: binary.LittleEndian.Uint64(b[12:]),
		first:  binary.LittleEndian.Uint64(b[20:]),
		base:   binary.LittleEndian.Uint64(b[28:]),
	}, nil
}

func segmentName(number uint64) string {
	return fmt.Sprintf("%016d%s", number, segmentSuffix)
}

func segmentNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0 && segmentName(n) == name
}

// segmentNumbers lists the segments in dir, in order.
func segmentNumbers(dir string) ([]uint64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, f := range files {
		if n, ok := segmentNumber(f.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// readSegmentHeader reads the header of a segment and checks that it is of this one.
func readSegmentHeader(dir string, number uint64) (segmentHeader, error) {
	f, err := os.Open(filepath.Join(dir, segmentName(number)))
	if err != nil {
		return segmentHeader{}, err
	}
	defer f.Close()
	b := make([]byte, segmentHead)
	n, err := io.ReadFull(f, b)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return segmentHeader{}, err
	}
	h, err := decodeSegmentHeader(b[:n])
	if err == nil && h.number != number {
		err = fmt.Errorf("the header is that of segment %d", h.number)
	}
	return h, err
}

// readSegment reads a whole segment.
func readSegment(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSegment {
		return nil, fmt.Errorf("is no segment: not a regular file, or larger than %d bytes", maxSegment)
	}
	b := make([]byte, info.Size())
	n, err := io.ReadFull(f, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return b[:n], err
}

// scan calls each for the payload of one record after the other, up to the end of b or to the first
// that is damaged. It returns where it stopped and how many records lie before.
func scan(b []byte, from int, each func(payload []byte) error) (end, records int, err error) {
	for end = from; end < len(b); records++ {
		payload, err := recordPayload(b[end:])
		if err == nil {
			err = each(payload)
		}
		if err != nil {
			return end, records, err
		}
		end += recordHead + len(payload)
	}
	return end, records, nil
}

// recordFollows tells whether there is a record anywhere in b. A search that takes too long counts as
// if there were one, so that nothing is cut off in doubt.
func recordFollows(b []byte) bool {
	budget := searchBudget
	for len(b) > recordHead {
		n := int(min(binary.LittleEndian.Uint32(b), maxPayload+1))
		if n > 0 && n <= maxPayload && n <= len(b)-recordHead {
			if budget -= n; budget < 0 {
				return true
			}
			if payload, err := recordPayload(b); err == nil {
				if _, err := decodeEntry(payload); err == nil {
					return true
				}
			}
		}
		b = b[1:]
	}
	return false
}
