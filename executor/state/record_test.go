package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/executor/state/internal/format"
)

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEpoch(t, rapid.StringN(1, -1, format.MaxName).Draw(t, "source"), rapid.Int64().Draw(t, "last"))
		e.Prev = rapid.Int64().Draw(t, "prev")
		if len(e.Position) == 0 {
			e.Position = nil
		}
		b := format.AppendEpoch([]byte("before"), (*format.Epoch)(&e))[len("before"):]
		payload, err := format.Payload(b)
		if err != nil || len(payload) != len(b)-format.RecordHead {
			t.Fatal(err)
		}
		x, err := format.DecodeEntry(payload)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, Epoch(x.Epoch)); d != "" {
			t.Fatal(d)
		}
		for n := range payload {
			if _, err := format.Payload(b[:format.RecordHead+n]); err == nil {
				t.Fatalf("%d bytes of %d are a record", format.RecordHead+n, len(b))
			}
		}
	})
}

func encodeEntry(x *format.Entry) []byte {
	switch x.Kind {
	case format.KindEpoch:
		return format.AppendEpoch(nil, &x.Epoch)
	case format.KindCommit:
		return format.AppendCommit(nil, x.Name, x.At, x.Rest)
	}
	return format.AppendTrim(nil, x.At)
}

// What decodes is encoded and decoded to the same again, and nothing panics.
func FuzzDecodeEntry(f *testing.F) {
	for _, b := range [][]byte{
		format.AppendEpoch(nil, &format.Epoch{Source: "a", Epoch: 7, Prev: 6, Clock: 1e15, Begun: true, Position: []byte("p")}),
		format.AppendCommit(nil, "sink", 9, []byte("w")),
		format.AppendTrim(nil, 3),
	} {
		f.Add(b[format.RecordHead:])
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		x, err := format.DecodeEntry(payload)
		if err != nil {
			return
		}
		b := encodeEntry(&x)
		again, err := format.Payload(b)
		if err != nil {
			t.Fatal(err)
		}
		y, err := format.DecodeEntry(again)
		if err != nil || !cmp.Equal(x, y) {
			t.Fatalf("%+v became %+v: %v", x, y, err)
		}
	})
}

// A log of any bytes, with a good header, opens or is ErrDamaged. With sums, the bytes are the
// payloads of records, so that the decoders behind the checksum are reached.
func FuzzOpen(f *testing.F) {
	f.Add(format.AppendTrim(format.AppendCommit(nil, "s", 4, nil), 3), false, uint64(0))
	f.Add([]byte("\x02\x01\x01s\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e"), true, uint64(9))
	f.Fuzz(func(t *testing.T, b []byte, sums bool, base uint64) {
		log := segmentHeader{number: 1, base: base}.append(nil)
		for sums && len(b) > 0 {
			n := 1 + int(b[0])%min(len(b), 60)
			start := len(log)
			log = append(format.Begin(log), b[:n]...)
			format.Seal(log, start)
			b = b[n:]
		}
		dir := memoryDir(t)
		lay(t, dir, map[uint64][]byte{1: append(log, b...)})
		s, err := Open(dir, Options{})
		if err == nil {
			must(t, s.CommitSink("fresh", 1, nil))
			must(t, s.Close())
		} else if !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
	})
}

// State files of any bytes give pieces or an error.
func FuzzPieces(f *testing.F) {
	f.Add([]byte("\x03abc\x01d"), true)
	f.Add([]byte("\xff\xff\xff\x7f1234"), false)
	f.Fuzz(func(t *testing.T, b []byte, sums bool) {
		file := binary.LittleEndian.AppendUint32([]byte(stateMagic), stateVersion)
		for sums && len(b) > 0 {
			n := 1 + int(b[0])%min(len(b), 60)
			start := len(file)
			file = append(format.Begin(file), b[:n]...)
			format.Seal(file, start)
			b = b[n:]
		}
		file = append(file, b...)
		bytesSeen := 0
		_, _ = eachPiece(bytes.NewReader(file), int64(len(file)), func(group int, piece []byte) error {
			if bytesSeen += len(piece); group < -1 || group >= 720 {
				t.Errorf("group %d", group)
			}
			return nil
		})
		if bytesSeen > len(file) {
			t.Errorf("%d bytes of pieces in a file of %d", bytesSeen, len(file))
		}
	})
}

// A length in a file is not believed: reading takes no more memory than the file has bytes.
func TestHugeLengths(t *testing.T) {
	file := binary.LittleEndian.AppendUint32([]byte(stateMagic), stateVersion)
	file = binary.LittleEndian.AppendUint32(file, maxPiece)
	file = append(file, make([]byte, 20)...)
	if _, err := eachPiece(bytes.NewReader(file), int64(len(file)), nil); !errors.Is(err, format.ErrLength) {
		t.Errorf("piece: %v", err)
	}
	// Lengths that are possible everywhere make the search behind a damaged record end, not hang.
	b := bytes.Repeat([]byte{0, 0, 0x40, 0}, 1<<20)
	if !format.Follows(b, isEntry) {
		t.Error("a search that was given up allows to cut off")
	}
}

// What is in a directory that is no state directory stays.
func TestOpenOtherDirectory(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644))
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("opened a directory with other files")
	}
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) != 1 {
		t.Errorf("%d files", len(files))
	}
	file := filepath.Join(dir, "mine")
	if _, err := Open(file, Options{}); err == nil {
		t.Error("opened a file")
	}
}

func TestSegmentNames(t *testing.T) {
	for name, want := range map[string]uint64{
		"0000000000000001.log": 1, segmentName(123): 123, "0000000000000000.log": 0, "1.log": 0,
		"000000000000000x.log": 0, "+000000000000001.log": 0, "0000000000000001": 0, "tmp-0000000000000001.log": 0,
	} {
		if n, ok := segmentNumber(name); n != want && ok || ok != (want > 0) {
			t.Errorf("%s: %d %v", name, n, ok)
		}
	}
}

// Versions of the future are refused by name.
func TestVersions(t *testing.T) {
	h := segmentHeader{number: 1}.append(nil)
	h[8] = 2
	if _, err := decodeSegmentHeader(h); err == nil || err.Error() != "has version 2 of the format, and this program knows version 1" {
		t.Errorf("segment: %v", err)
	}
	if _, err := format.Unseal(fmt.Appendf(nil, "sluice-spec 2 0 00000000\n"), "spec"); err == nil || err.Error() != "has version 2 of the format, and this program knows version 1" {
		t.Errorf("sealed: %v", err)
	}
}
