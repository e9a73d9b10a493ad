package store

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strings"
)

// A sealed value is what a file or znode holds: a line that people can read, and bytes.
//
//	sluice-value 1 ID KIND LENGTH CRC32C
//
// ID tells versions or writers apart. KIND says where the bytes are; LENGTH is that of the whole value, and CRC32C (eight
// hexadecimal digits) that of ID with the value behind it.
type sealed struct {
	id     string
	kind   string
	length int
	sum    uint32
}

// Kinds of sealed values.
const (
	kindHere  = "here"  // behind the line
	kindNodes = "nodes" // in znodes of their own
	kindFile  = "file"  // in a file of the directory for large values
)

const sealedFormat = "sluice-value 1 %s %s %d %08x\n"

// maxHead bounds the line, in bytes: an id may be a path.
const maxHead = maxName*maxDepth + maxReference

// maxReference bounds a line whose id is none, in bytes.
const maxReference = 256

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sealedOf(id, kind string, value []byte) sealed {
	return sealed{id, kind, len(value), checksum(id, value)}
}

func checksum(id string, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(id), castagnoli), castagnoli, value)
}

func (s sealed) head() []byte {
	return fmt.Appendf(nil, sealedFormat, s.id, s.kind, s.length, s.sum)
}

// seal returns the line with the value behind it.
func seal(id string, value []byte) []byte {
	return append(sealedOf(id, kindHere, value).head(), value...)
}

// readSealed takes what a file or znode holds apart. The rest is not checked yet.
func readSealed(b []byte) (s sealed, rest []byte, err error) {
	head, rest, found := bytes.Cut(b, []byte("\n"))
	if !found || len(head) > maxHead {
		return s, nil, fmt.Errorf("%w: there is no sluice-value line", ErrDamaged)
	}
	if n, err := fmt.Sscanf(string(head)+"\n", sealedFormat, &s.id, &s.kind, &s.length, &s.sum); err != nil || n != 4 {
		return s, nil, fmt.Errorf("%w: %q is no line of a sluice-value of format 1", ErrDamaged, strings.ToValidUTF8(string(head), "?"))
	}
	if s.length < 0 || s.length > MaxValue {
		return s, nil, fmt.Errorf("%w: a length of %d bytes", ErrDamaged, s.length)
	}
	return s, rest, nil
}

// check returns value if it is the one that was sealed.
func (s sealed) check(value []byte) ([]byte, error) {
	if len(value) != s.length {
		return nil, fmt.Errorf("%w: %d bytes, %d were written", ErrDamaged, len(value), s.length)
	}
	if checksum(s.id, value) != s.sum {
		return nil, fmt.Errorf("%w: the checksum is wrong", ErrDamaged)
	}
	return value, nil
}

// unseal returns the id and the value of bytes that hold both.
func unseal(b []byte) (id string, value []byte, err error) {
	s, rest, err := readSealed(b)
	if err != nil {
		return "", nil, err
	}
	if s.kind != kindHere {
		return "", nil, fmt.Errorf("%w: a value of kind %q", ErrDamaged, s.kind)
	}
	value, err = s.check(rest)
	return s.id, value, err
}
