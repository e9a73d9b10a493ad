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

	"sluice/executor/state/internal/format"
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
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], format.Castagnoli))
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
	if crc32.Checksum(b[:segmentHead-4], format.Castagnoli) != binary.LittleEndian.Uint32(b[segmentHead-4:]) {
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
