package format

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// A sealed file is a text that people may read, under a line that tells what it is:
//
//	sluice-KIND VERSION LENGTH CRC32C
//
// with the length in bytes and the checksum in eight hexadecimal digits.

// maxSealed bounds the text of a sealed file, in bytes.
const maxSealed = 64 << 20

const sealedVersion = 1

// Sealed is the content of a file of this kind.
func Sealed(kind string, text []byte) ([]byte, error) {
	if len(text) > maxSealed {
		return nil, fmt.Errorf("a text of %d bytes is too long, %d are possible", len(text), maxSealed)
	}
	head := fmt.Sprintf("sluice-%s %d %d %08x\n", kind, sealedVersion, len(text), crc32.Checksum(text, Castagnoli))
	return append([]byte(head), text...), nil
}

// WriteSealed creates path. The file is whole when it returns nil, but not yet on the disk unless sync is set.
func WriteSealed(path, kind string, text []byte, sync bool) (err error) {
	b, err := Sealed(kind, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if sync {
		return f.Sync()
	}
	return nil
}

// ReadSealed returns the text of a file of this kind.
func ReadSealed(path, kind string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSealed+256))
	if err != nil {
		return nil, err
	}
	return Unseal(b, kind)
}

// Unseal takes the text out of the content of a file of this kind.
func Unseal(b []byte, kind string) ([]byte, error) {
	head, text, found := bytes.Cut(b, []byte("\n"))
	var version, length int
	var sum uint32
	format := "sluice-" + kind + " %d %d %x"
	if n, err := fmt.Sscanf(string(head[:min(len(head), 100)]), format, &version, &length, &sum); !found || err != nil || n != 3 {
		return nil, errors.New("is no sluice-" + kind + " file")
	}
	switch {
	case version != sealedVersion:
		return nil, fmt.Errorf("has version %d of the format, and this program knows version %d", version, sealedVersion)
	case length != len(text):
		return nil, fmt.Errorf("has %d bytes of text, and %d were written", len(text), length)
	case crc32.Checksum(text, Castagnoli) != sum:
		return nil, errors.New("the checksum is wrong")
	}
	return text, nil
}
