package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/zeebo/xxh3"

	"sluice/dataflow"
	"sluice/operators"
)

// A position of a reader holds the names of all of its files in the order in which they are read, how
// many of them are done with, and where the reader stands in the next one. A reader that goes on from a
// position reads the rest of these files, and then, in order of their names, those that have turned up
// since. Files that are done with are not looked at again: they may be gone, or different.
//
// The file in which a position stands must be as it was up to there; it may have grown, unless it is
// compressed or in a format that is not text: then it must be as it was altogether.
//
// What is no file cannot be read again: pipe.go says how it is gone on with.
//
// A file that is followed may have been renamed since, as logs are: it is looked for in its folder, read to
// its end, and then the one that has its name now. If it is gone, or has been cut, that counts as a gap
// (operators.Counters), and the one that has its name is read from its beginning.

// place is a place in a file.
type place struct {
	// Text: offset and line of a row, as Chunk has them; 0 at the beginning of the file.
	offset, line int64
	rows         int64 // to pass over from there on, bad ones too
	file         identity
}

// begun reports whether the place is not the beginning of the file.
func (p place) begun() bool { return p.offset > 0 || p.rows > 0 }

// identity tells whether a file is still the one that it was.
type identity struct {
	device, inode uint64
	size          int64  // of the part that must not change: of text what has been read, else all
	sum           uint64 // of some bytes of it
}

// here is where the source stands. Of the file's identity it has only the size, of text.
func (s *source) here() place {
	if s.chunk == nil {
		return s.from
	}
	given := int64(s.row+s.bad) + s.skip
	if !isText(s.format) {
		return place{rows: s.start.line - 1 + given}
	}
	p := s.start
	p.rows = given
	return p
}

// positions makes and reads positions.
type positions struct {
	prefix   []byte   // of all positions: the files
	sought   []string // names of the files of a position that was sought
	last     identity // that was computed last, for
	lastSize int64    // this size
}

const positionVersion = 2

var positionCRC = crc32.MakeTable(crc32.Castagnoli)

// list makes the part that all positions have in common.
func (p *positions) list(s *source) {
	dst := binary.LittleEndian.AppendUint64([]byte{positionVersion}, readerSum(s.ctx.Op))
	dst = binary.AppendUvarint(dst, uint64(len(s.files)))
	before := ""
	for _, f := range s.files {
		name := nameOf(s.ctx, f)
		shared := 0
		for shared < min(len(name), len(before)) && name[shared] == before[shared] {
			shared++
		}
		dst = binary.AppendUvarint(dst, uint64(shared))
		dst = binary.AppendUvarint(dst, uint64(len(name)-shared))
		dst = append(dst, name[shared:]...)
		before = name
	}
	p.prefix = dst
}

// readerSum stands for the parameters on which it depends what a position means.
func readerSum(op *dataflow.Operator) uint64 {
	var text []byte
	for _, p := range []string{"path", "format", "header", "delimiter", "follow", "persist"} {
		text = append(append(text, op.Value(p)...), 0)
	}
	return xxh3.Hash(text)
}

// nameOf is how a file is called in positions: relative to the spec, if its path is.
func nameOf(ctx *operators.Context, path string) string {
	if path == "-" || filepath.IsAbs(ctx.Op.Value("path")) {
		return path
	}
	name, err := filepath.Rel(ctx.Dir, path)
	if err != nil {
		return path
	}
	if name == "-" {
		return "./-" // not standard input
	}
	return name
}

// Replays implements operators.Replayable.
func (s *source) Replays() bool { return s.kept != nil || !s.pipes }

// Position implements operators.Replayable.
func (s *source) Position() []byte {
	s.syncKept()
	p := s.here()
	if s.in != nil && !s.in.kept && p.begun() && (s.begun || !s.follow) {
		p.file = s.identify(p.file.size)
	}
	dst := binary.AppendUvarint(bytes.Clone(s.log.prefix), uint64(s.at))
	for _, n := range []int64{p.offset, p.line, p.rows, p.file.size} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, n := range []uint64{p.file.device, p.file.inode, p.file.sum} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	dst = appendPipe(dst, s.pipeNow())
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst, positionCRC))
}

// What a position says of a pipe.
const (
	isPipe   = 1 << iota
	hasHead  // head is not nil
	pipeDone // likewise
)

func appendPipe(dst []byte, p pipeState) []byte {
	flags := byte(0)
	for bit, on := range map[byte]bool{isPipe: p.is, hasHead: p.head != nil, pipeDone: p.done} {
		if on {
			flags |= bit
		}
	}
	if dst = append(dst, flags); !p.is {
		return dst
	}
	dst = binary.LittleEndian.AppendUint64(dst, p.id)
	for _, text := range [][]byte{p.head, p.rest} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return dst
}

// identify gives the identity of the file that is being read, of which size bytes have been. Places in one
// chunk share it.
func (s *source) identify(size int64) identity {
	if s.log.last == (identity{}) || s.log.lastSize != size {
		f := s.in.origin
		if s.in.follow != nil {
			f = s.in.follow.f
		}
		// A file that cannot be looked at is found to have changed when the position is sought.
		s.log.last, _ = identityOf(f, s.in.base, size, s.in.atOffsets() && isText(s.format))
		s.log.lastSize = size
	}
	return s.log.last
}

// identityOf gives the identity of a file: of size bytes from base on if part is set, else of all of it. A
// pipe has none.
func identityOf(f *os.File, base, size int64, part bool) (identity, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return identity{}, err
	}
	x := identity{size: info.Size()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		x.device, x.inode = uint64(stat.Dev), uint64(stat.Ino)
	}
	if part {
		x.size = size
	} else {
		base = 0
	}
	var buf [1024]byte
	n := min(x.size, int64(len(buf)/2))
	_, err = f.ReadAt(buf[:n], base)
	if err == nil || err == io.EOF {
		_, err = f.ReadAt(buf[n:2*n], base+x.size-n)
	}
	x.sum = xxh3.Hash(buf[:2*n])
	if err == io.EOF {
		err = nil
	}
	return x, err
}

var _ operators.Replayable = (*source)(nil)

// position is what a position says.
type position struct {
	names []string
	at    int
	place place
	pipe  pipeState
}

var errPosition = errors.New("the position that the state has of the input is damaged, or of another version")

// Seek implements operators.Replayable.
func (s *source) Seek(text []byte) error {
	p, err := parsePosition(text, readerSum(s.ctx.Op))
	if err != nil {
		return err
	}
	names := p.names
	if sought := s.log.sought; len(sought) > len(names) && slices.Equal(sought[:len(names)], names) {
		names = sought
	}
	files := make([]string, 0, len(names))
	known := make(map[string]bool, len(names))
	for _, name := range names {
		path := resolvePath(s.ctx.Dir, name)
		files, known[path] = append(files, path), true
	}
	added := slices.DeleteFunc(slices.Clone(s.files), func(f string) bool { return known[f] })
	slices.Sort(added) // some may have been known to a position sought before
	s.files = append(files, added...)
	s.at, s.from, s.pipe, s.log.sought = p.at, p.place, p.pipe, names
	s.pipes = !s.follow && isLive(s.files)
	s.log.list(s)
	return s.checkFiles(len(names))
}

// checkFiles makes sure that the files that are still to be read, of the first n, are there, and that the
// first of them is as it was.
func (s *source) checkFiles(n int) error {
	if s.follow {
		return nil
	}
	for i := s.at; i < n; i++ {
		if _, err := os.Stat(s.files[i]); s.files[i] != "-" && err != nil {
			return &operators.InputError{Err: fmt.Errorf("an input that has not been read yet: %w; put it back, or start anew with another state directory", err)}
		}
	}
	if s.at == len(s.files) || !s.from.begun() && !s.pipe.is {
		return nil
	}
	_, is := pipeAt(s.current())
	switch {
	case s.kept != nil && s.pipe.is:
		return s.checkKept()
	case is:
		s.from = place{} // whatever it brings now is new
		return nil
	case s.pipe.is:
		return changed(s.current(), "it is a file now, and was none")
	}
	in, err := openOrigin(s.files[s.at])
	if err != nil {
		return &operators.InputError{Err: err}
	}
	defer in.Close()
	what, err := s.difference(in)
	if err == nil && what != "" {
		err = changed(s.files[s.at], what)
	}
	return err
}

// checkKept makes sure that the log has what comes next.
func (s *source) checkKept() error {
	offset := s.from.offset
	if !s.plain() {
		offset = 0
	} else if offset > 0 && s.pipe.head == nil && !s.kept.Begins(offset) {
		return errPosition
	}
	if err := s.kept.SeekTo(offset); err != nil {
		return &operators.InputError{Err: err}
	}
	return nil
}

// difference says how a file differs from what it was when it was read up to s.from; "" if not at all.
func (s *source) difference(in *input) (string, error) {
	part := isText(s.format) && in.atOffsets()
	was := s.from.file
	now, err := identityOf(in.origin, in.base, was.size, part)
	if err != nil {
		return "", err
	}
	info, err := in.origin.Stat()
	if err != nil {
		return "", err
	}
	switch size := info.Size() - in.base; {
	case part && size < was.size:
		return fmt.Sprintf("it has %d bytes, where %d have been read", size, was.size), nil
	case now.size != was.size:
		return fmt.Sprintf("it has %d bytes instead of %d", now.size, was.size), nil
	case now.sum != was.sum:
		return "what has been read of it is not the same", nil
	}
	return "", nil
}

// changed is the error for an input that cannot be read on.
func changed(path, what string) error {
	return &operators.InputError{Err: fmt.Errorf("input %q has changed since it was read: %s; put it back as it was, or start anew with another state directory", path, what)}
}

// followed finds the file that was being followed at the position; nil if there is none. What has the path
// now is then to be read from its beginning.
func (s *source) followed(path string) *os.File {
	if !s.from.begun() {
		return nil
	}
	candidates := []string{path}
	// A folder that cannot be listed has no others.
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if e.Type().IsRegular() && e.Name() != filepath.Base(path) {
			candidates = append(candidates, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	for _, c := range candidates {
		if f := s.sameFile(c); f != nil {
			return f
		}
	}
	s.ctx.Counters.Gaps.Add(1)
	s.from = place{}
	return nil
}

// sameFile opens path if it is the file of s.from.
func (s *source) sameFile(path string) *os.File {
	was := s.from.file
	info, err := os.Stat(path)
	if err != nil || info.Size() < was.size {
		return nil
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || uint64(stat.Dev) != was.device || uint64(stat.Ino) != was.inode {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	if now, err := identityOf(f, 0, was.size, true); err != nil || now != was {
		f.Close()
		return nil
	}
	return f
}

func parsePosition(text []byte, reader uint64) (position, error) {
	var p position
	if len(text) < 13 || text[0] != positionVersion {
		return p, errPosition
	}
	body := text[:len(text)-4]
	if crc32.Checksum(body, positionCRC) != binary.LittleEndian.Uint32(text[len(body):]) {
		return p, errPosition
	}
	if binary.LittleEndian.Uint64(body[1:]) != reader {
		return p, errors.New("the position that the state has is of another input: path, format, header, delimiter, follow or persist has changed")
	}
	r := positionReader{rest: body[9:]}
	var name strings.Builder
	for n := r.count(len(r.rest)); n > 0; n-- {
		before := ""
		if len(p.names) > 0 {
			before = p.names[len(p.names)-1]
		}
		name.Reset()
		name.WriteString(before[:r.count(len(before))])
		name.Write(r.bytes(r.count(len(r.rest))))
		p.names = append(p.names, name.String())
	}
	p.at = r.count(len(p.names))
	for _, to := range []*int64{&p.place.offset, &p.place.line, &p.place.rows, &p.place.file.size} {
		*to = r.number()
	}
	for _, to := range []*uint64{&p.place.file.device, &p.place.file.inode, &p.place.file.sum} {
		if b := r.bytes(8); b != nil {
			*to = binary.LittleEndian.Uint64(b)
		}
	}
	p.pipe = r.pipe()
	if r.failed || len(r.rest) > 0 || p.place.begun() && p.at == len(p.names) {
		return p, errPosition
	}
	return p, nil
}

// positionReader reads numbers and bytes until they do not fit.
type positionReader struct {
	rest   []byte
	failed bool
}

func (r *positionReader) number() int64 {
	n, used := binary.Uvarint(r.rest)
	if used <= 0 || int64(n) < 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[used:]
	return int64(n)
}

// pipe reads what appendPipe has written.
func (r *positionReader) pipe() pipeState {
	flags := r.bytes(1)
	if flags == nil || flags[0] == 0 {
		return pipeState{}
	}
	p := pipeState{is: flags[0]&isPipe != 0, done: flags[0]&pipeDone != 0}
	id := r.bytes(8)
	head, rest := r.bytes(r.count(len(r.rest))), r.bytes(r.count(len(r.rest)))
	if r.failed || !p.is || flags[0] >= pipeDone<<1 || len(head) > 0 && flags[0]&hasHead == 0 {
		r.failed = true
		return pipeState{}
	}
	p.id, p.rest = binary.LittleEndian.Uint64(id), bytes.Clone(rest)
	if flags[0]&hasHead != 0 {
		p.head = append([]byte{}, head...)
	}
	return p
}

// count reads a number that is not above most.
func (r *positionReader) count(most int) int {
	n := r.number()
	if n > int64(most) {
		r.failed = true
		return 0
	}
	return int(n)
}

func (r *positionReader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.failed = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
