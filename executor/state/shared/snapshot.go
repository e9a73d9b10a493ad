package shared

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"sluice/dataflow"
	"sluice/executor/state"
	"sluice/executor/state/internal/format"
	"sluice/operators"
)

// A snapshot is a header and records: the first says what it is, then come the pieces, and the last one
// says how many they are.
//
//	magic, 8 bytes | version, 4 bytes little-endian
const (
	snapshotMagic   = "sluicesn"
	snapshotVersion = 1
	snapshotHead    = 12
)

// First bytes of the payloads, by the place of the record.
const (
	kindAbout = 1
	kindPiece = 2
	kindEnd   = 3
)

// maxPiece bounds a piece of state, in bytes.
const maxPiece = 1 << 30

// WriteSnapshot is that of state.Together.
func (s *Store) WriteSnapshot(key string, gen, lo, hi int64, fingerprint string, write func(keep func(group int, piece []byte) error) error) (string, error) {
	if s.closed.Load() {
		return "", state.ErrClosed
	}
	about, err := newSnapshot(key, gen, lo, hi, fingerprint)
	if err != nil {
		return "", err
	}
	f, err := s.disk.temporary()
	if err != nil {
		return "", wrap(err)
	}
	err = writeSnapshot(f, key, about, fingerprint, write)
	if err == nil && s.disk.sync {
		err = f.Sync()
	}
	for err == nil {
		about.n++
		if err = os.Link(f.Name(), s.disk.path(about.ref())); !errors.Is(err, fs.ErrExist) {
			break
		}
		err = nil
	}
	_ = os.Remove(f.Name()) // Trim does it otherwise
	if err == nil && s.disk.sync {
		err = format.SyncDir(s.disk.path(snapshotsDir))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("state: snapshot of %q: %w", key, err)
	}
	return about.ref(), nil
}

// newSnapshot checks what a snapshot is said to be.
func newSnapshot(key string, gen, lo, hi int64, fingerprint string) (snapshot, error) {
	switch {
	case lo < 0 || hi < lo || gen < 0:
		return snapshot{}, assertion("snapshot of %q, generation %d, epochs %d to %d", key, gen, lo, hi)
	case len(fingerprint) > maxBlob:
		return snapshot{}, assertion("snapshot of %q: a fingerprint of %d bytes", key, len(fingerprint))
	}
	return snapshot{key: escape(key), lo: lo, hi: hi, gen: gen}, checkName("a snapshot", key)
}

func checkPiece(key string, group int, piece []byte) error {
	switch {
	case group != operators.WholeState && (group < 0 || group >= dataflow.KeyGroups):
		return assertion("snapshot of %q: a piece of key group %d", key, group)
	case len(piece) > maxPiece:
		return assertion("snapshot of %q: a piece of %d bytes, %d are possible", key, len(piece), maxPiece)
	}
	return nil
}

func writeSnapshot(f *os.File, key string, about snapshot, fingerprint string, write func(keep func(group int, piece []byte) error) error) error {
	out := bufio.NewWriterSize(f, 64<<10)
	_, _ = out.Write(binary.LittleEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion)) // its buffer is larger
	b := append(format.Begin(nil), kindAbout)
	b = format.AppendName(b, key)
	for _, n := range []int64{about.gen, about.lo, about.hi} {
		b = binary.AppendVarint(b, n)
	}
	if err := writeRecord(out, b, []byte(fingerprint)); err != nil {
		return err
	}
	pieces := int64(0)
	err := write(func(group int, piece []byte) error {
		if err := checkPiece(key, group, piece); err != nil {
			return err
		}
		pieces++
		b = binary.AppendVarint(append(format.Begin(b[:0]), kindPiece), int64(group))
		return writeRecord(out, b, piece)
	})
	if err != nil {
		return err
	}
	b = binary.AppendVarint(append(format.Begin(b[:0]), kindEnd), pieces)
	if err := writeRecord(out, b, nil); err != nil {
		return err
	}
	return out.Flush()
}

// writeRecord writes a record that begins with b, which has room for its head, and goes on with rest.
func writeRecord(out io.Writer, b, rest []byte) error {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-format.RecordHead+len(rest)))
	binary.LittleEndian.PutUint32(b[4:], format.SumParts(b[:4], b[format.RecordHead:], rest))
	if _, err := out.Write(b); err != nil {
		return err
	}
	_, err := out.Write(rest)
	return err
}

// ReadSnapshot is that of state.Together.
func (s *Store) ReadSnapshot(ref string, f func(group int, piece []byte) error) (fingerprint string, err error) {
	if s.closed.Load() {
		return "", state.ErrClosed
	}
	about, ok := parseRef(ref)
	if !ok {
		return "", fmt.Errorf("state: %q is not the name of a snapshot", ref)
	}
	path := s.disk.path(ref)
	file, err := os.Open(path)
	if err != nil {
		return "", wrap(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is no regular file")
	}
	if err != nil {
		return "", damaged(path, err)
	}
	fingerprint, own, err := readSnapshot(bufio.NewReaderSize(file, 256<<10), info.Size(), about, f)
	if err != nil {
		return "", damaged(path, err)
	}
	return fingerprint, own
}

// readSnapshot reads a file of left bytes, and takes no more memory than these. It returns the error of
// f apart from those of the file.
func readSnapshot(r io.Reader, left int64, about snapshot, f func(group int, piece []byte) error) (fingerprint string, own, err error) {
	head := make([]byte, snapshotHead)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:8]) != snapshotMagic {
		return "", nil, errors.New("is no snapshot")
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != snapshotVersion {
		return "", nil, fmt.Errorf("has version %d of the format, and this program knows version %d", v, snapshotVersion)
	}
	left -= snapshotHead
	b, err := format.Read(r, left, format.MaxPayload, nil)
	if err != nil {
		return "", nil, err
	}
	left -= int64(format.RecordHead + len(b))
	if fingerprint, err = decodeAbout(b, about); err != nil {
		return "", nil, err
	}
	for pieces := int64(0); ; pieces++ {
		if b, err = format.Read(r, left, maxPiece+1+binary.MaxVarintLen64, b); err != nil {
			return "", nil, err
		}
		left -= int64(format.RecordHead + len(b))
		in := format.Reader{B: b}
		kind, n := in.Byte(), in.Varint()
		switch {
		case in.Failed:
			return "", nil, format.ErrPayload
		case kind == kindEnd && n == pieces && left == 0 && len(in.B) == 0:
			return fingerprint, nil, nil
		case kind != kindPiece || n < operators.WholeState || n >= dataflow.KeyGroups:
			return "", nil, format.ErrPayload
		}
		if own = f(int(n), in.B); own != nil {
			return "", own, nil
		}
	}
}

func decodeAbout(b []byte, about snapshot) (fingerprint string, err error) {
	in := format.Reader{B: b}
	kind, key := in.Byte(), in.Name()
	got := snapshot{key: escape(key), gen: in.Varint(), lo: in.Varint(), hi: in.Varint(), n: about.n}
	if in.Failed || kind != kindAbout {
		return "", format.ErrPayload
	}
	if got != about {
		return "", fmt.Errorf("is the snapshot %s", got.ref())
	}
	return string(in.B), nil
}

// Trim is that of State.
func (s *Store) Trim(epoch int64, refs []string) error {
	if s.closed.Load() {
		return state.ErrClosed
	}
	names, err := s.disk.names(snapshotsDir)
	for _, name := range names {
		ref := snapshotsDir + "/" + name
		if about, ok := parseRef(ref); ok && about.hi <= epoch && !slices.Contains(refs, ref) {
			err = errors.Join(err, remove(s.disk.path(ref)))
		}
	}
	return wrap(errors.Join(err, s.disk.sweep()))
}
