package state

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"sluice/dataflow"
	"sluice/executor/state/internal/format"
	"sluice/operators"
)

func (s *Store) checkpointsPath() string { return filepath.Join(s.dir, checkpointsDir) }

func (s *Store) checkpointPath(epoch int64) string {
	return filepath.Join(s.checkpointsPath(), checkpointName(epoch))
}

func checkpointName(epoch int64) string { return fmt.Sprintf("%019d", epoch) }

// completeCheckpoints lists the epochs of the published checkpoints, in order.
func completeCheckpoints(dir string) ([]int64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	var epochs []int64
	for _, f := range files {
		if n, err := strconv.ParseInt(f.Name(), 10, 64); err == nil && n >= 0 && checkpointName(n) == f.Name() {
			epochs = append(epochs, n)
		}
	}
	slices.Sort(epochs)
	return epochs, nil
}

// retireCheckpoints gives the checkpoints below epoch names that a reader takes no notice of, as a half
// removed one would be a damaged one, and returns these.
func (s *Store) retireCheckpoints(epoch int64) (gone []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if n := len(s.checkpoints); epoch < 0 || n > 0 && s.checkpoints[n-1] < epoch {
		return nil, assertion("trimming to epoch %d, for which there is no checkpoint", epoch)
	}
	for len(s.checkpoints) > 0 && s.checkpoints[0] < epoch {
		path := s.checkpointPath(s.checkpoints[0])
		to := filepath.Join(s.checkpointsPath(), temporaryPrefix+"old-"+filepath.Base(path))
		if err := os.Rename(path, to); err != nil {
			return gone, fmt.Errorf("state: %w", err)
		}
		delete(s.verified, s.checkpoints[0])
		s.checkpoints = s.checkpoints[1:]
		gone = append(gone, to)
	}
	return gone, nil
}

// Checkpoint is a complete checkpoint. Its state can be read until a later one is trimmed to. It may be
// used by several goroutines at the same time.
type Checkpoint struct {
	dir      string
	advice   string
	manifest manifest
	numbers  map[string]int // of the files
}

// Checkpoint returns the complete checkpoint of the highest epoch, or nil. All its files are read once
// to see that they are whole; one that is not is ErrDamaged, as is a log that ends before the checkpoint.
func (s *Store) Checkpoint() (*Checkpoint, error) {
	for {
		s.mu.Lock()
		closed, epochs := s.closed, slices.Clone(s.checkpoints)
		s.mu.Unlock()
		if closed {
			return nil, ErrClosed
		}
		if len(epochs) == 0 {
			return nil, nil
		}
		c, err := s.openCheckpoint(epochs)
		if err == nil || s.isLast(epochs[len(epochs)-1]) {
			return c, err
		}
		// Another goroutine has completed a later one and removed this.
	}
}
func (s *Store) isLast(epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.checkpoints)
	return n > 0 && s.checkpoints[n-1] == epoch
}

// openCheckpoint opens the last of the checkpoints.
func (s *Store) openCheckpoint(epochs []int64) (*Checkpoint, error) {
	epoch := epochs[len(epochs)-1]
	c := &Checkpoint{dir: s.checkpointPath(epoch), advice: s.advice(epochs), numbers: map[string]int{}}
	if err := c.readManifest(epoch); err != nil {
		return nil, err
	}
	s.mu.Lock()
	verified := s.verified[epoch]
	s.mu.Unlock()
	if verified {
		return c, nil
	}
	if c.manifest.Records > s.opened {
		return nil, damaged(s.log.dir, "restore it from a copy, or remove the state directory to begin again",
			fmt.Sprintf("the log has %d records, and checkpoint %d was made behind %d", s.opened, epoch, c.manifest.Records))
	}
	if err := c.verify(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified[epoch] = true
	return c, nil
}

// advice says what can be done if the last of the checkpoints is damaged.
func (s *Store) advice(epochs []int64) string {
	s.mu.Lock()
	trimmed := s.kept.trimmed
	s.mu.Unlock()
	dir := s.checkpointPath(epochs[len(epochs)-1])
	if n := len(epochs); n > 1 && epochs[n-2] >= trimmed {
		return fmt.Sprintf("restore it from a copy, or remove %s to go back to checkpoint %d", dir, epochs[n-2])
	}
	if trimmed < 0 {
		return fmt.Sprintf("restore it from a copy, or remove %s to read all input again", dir)
	}
	return "restore it from a copy, or remove the state directory to begin again"
}

func (c *Checkpoint) damaged(file string, what any) error {
	return damaged(filepath.Join(c.dir, file), c.advice, what)
}

func (c *Checkpoint) readManifest(epoch int64) error {
	text, err := format.ReadSealed(filepath.Join(c.dir, manifestFile), manifestFile)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(&c.manifest)
	}
	if err == nil && c.manifest.Epoch != epoch {
		err = fmt.Errorf("is of epoch %d", c.manifest.Epoch)
	}
	if err != nil {
		return c.damaged(manifestFile, err)
	}
	for i, op := range c.manifest.Operators {
		if _, twice := c.numbers[op.Name]; twice {
			return c.damaged(manifestFile, fmt.Sprintf("has operator %q twice", op.Name))
		}
		c.numbers[op.Name] = i
	}
	return nil
}

// verify reads all files.
func (c *Checkpoint) verify() error {
	buf := make([]byte, 256<<10)
	for i, op := range c.manifest.Operators {
		if err := verifyFile(filepath.Join(c.dir, stateFile(i)), op, buf); err != nil {
			return c.damaged(stateFile(i), err)
		}
	}
	return nil
}

func verifyFile(path string, op manifestOperator, buf []byte) error {
	f, err := openState(path, op.Length)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := uint32(0)
	for {
		n, err := f.Read(buf)
		sum = crc32.Update(sum, format.Castagnoli, buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if sum != op.CRC32C {
		return errors.New("the checksum is wrong")
	}
	return nil
}

// openState opens a file that must have length bytes.
func openState(path string, length int64) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() != length) {
		err = fmt.Errorf("is no regular file of %d bytes, as were written", length)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Epoch is the epoch at whose end the state was taken.
func (c *Checkpoint) Epoch() int64 { return c.manifest.Epoch }

// Operators returns the names of the operators whose state there is, sorted.
func (c *Checkpoint) Operators() []string { return sortedNames(c.numbers) }

// Fingerprint returns that of the operator's state, or "" if there is no such operator.
func (c *Checkpoint) Fingerprint(op string) string {
	if i, ok := c.numbers[op]; ok {
		return c.manifest.Operators[i].Fingerprint
	}
	return ""
}

// Meta returns the bytes that Complete was given, nil if these were none. They must not be changed.
func (c *Checkpoint) Meta() []byte { return c.manifest.Meta }

// Pieces gives f the pieces of an operator in the order in which they were written; none if there is no
// such operator. A piece may be kept no longer than the call. An error of f ends Pieces, which returns it.
func (c *Checkpoint) Pieces(op string, f func(group int, piece []byte) error) error {
	i, ok := c.numbers[op]
	if !ok {
		return nil
	}
	about := c.manifest.Operators[i]
	file, err := openState(filepath.Join(c.dir, stateFile(i)), about.Length)
	if err != nil {
		return c.damaged(stateFile(i), err)
	}
	defer file.Close()
	var own error
	n, err := eachPiece(bufio.NewReaderSize(file, 256<<10), about.Length, func(group int, piece []byte) error {
		own = f(group, piece)
		return own
	})
	if own != nil {
		return own
	}
	if err == nil && n != about.Pieces {
		err = fmt.Errorf("has %d pieces, and %d were written", n, about.Pieces)
	}
	if err != nil {
		return c.damaged(stateFile(i), err)
	}
	return nil
}

// eachPiece reads a state file of left bytes, and takes no more memory than these.
func eachPiece(r io.Reader, left int64, f func(group int, piece []byte) error) (n int64, err error) {
	head := make([]byte, stateHead)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:8]) != stateMagic {
		return 0, errors.New("is no file of state")
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != stateVersion {
		return 0, fmt.Errorf("has version %d of the format, and this program knows version %d", v, stateVersion)
	}
	var payload []byte
	for left -= stateHead; left > 0; n++ {
		payload, err = format.Read(r, left, maxPiece+binary.MaxVarintLen64, payload)
		if err != nil {
			return n, err
		}
		group, size := binary.Varint(payload)
		if size <= 0 || group < operators.WholeState || group >= dataflow.KeyGroups {
			return n, format.ErrPayload
		}
		if err := f(int(group), payload[size:]); err != nil {
			return n, err
		}
		left -= format.RecordHead + int64(len(payload))
	}
	return n, nil
}
