package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

var (
	// Files have NULLs in a column that must have none, so that there are bad rows in all formats.
	writtenSchema = &dataflow.Schema{Columns: []dataflow.Column{{Name: "n", Type: dataflow.IntType, Nullable: true}, {Name: "s", Type: dataflow.StringType, Nullable: true}}}
	readSchema    = &dataflow.Schema{Columns: []dataflow.Column{{Name: "n", Type: dataflow.IntType}, {Name: "s", Type: dataflow.StringType, Nullable: true}}}
)

// fatal is what tests and properties have in common.
type fatal interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func readerOf(t fatal, dir string, params map[string]string) *source {
	t.Helper()
	op := &dataflow.Operator{Name: "source", Desc: Reader, Outputs: []dataflow.Output{{Port: "", Schema: readSchema}, {Port: "errors", Schema: operators.ErrorsSchema}}}
	for name, value := range params {
		op.Params = append(op.Params, dataflow.Param{Name: name, Value: value})
	}
	s, err := OpenReader(&operators.Context{Op: op, Counters: &operators.Counters{}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*source)
}

// received is what a source has given.
type received struct{ good, bad []string }

func (x *received) add(r *operators.SourceRows) {
	if b := r.Batch; b != nil {
		for i := range b.Len {
			x.good = append(x.good, show(b, i))
		}
	}
	if b := r.Errors; b != nil {
		for i := range b.Len {
			x.bad = append(x.bad, fmt.Sprintf("%s %s %s", b.Cols[1].Bytes(i), b.Cols[2].Bytes(i), b.Cols[0].Bytes(i)))
		}
	}
}

// read reads row by row to the end, or until there have been n good rows.
func (x *received) read(s *source, n int) error {
	for len(x.good) < n {
		r, err := s.Next(context.Background(), 1)
		if err != nil {
			return err
		}
		x.add(r)
	}
	return nil
}

// goodRows reads n good rows, or all if n is negative and then closes the source.
func goodRows(t fatal, s *source, n int) string {
	t.Helper()
	var x received
	if n >= 0 {
		if err := x.read(s, n); err != nil {
			t.Fatalf("after %q: %v", x.good, err)
		}
		return strings.Join(x.good, " ")
	}
	if err := x.read(s, 1<<30); !errors.Is(err, io.EOF) {
		t.Fatalf("after %q: %v", x.good, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(x.good, " ")
}

func writeFile(t fatal, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func packed(t fatal, data []byte, ending string) []byte {
	var buf bytes.Buffer
	var w io.WriteCloser
	switch ending {
	case ".gz":
		w = gzip.NewWriter(&buf)
	case ".zst":
		z, err := zstd.NewWriter(&buf)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return data
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// drawFile draws a file of numbered rows, some of which are bad.
func drawFile(t *rapid.T, format string) []byte {
	var buf bytes.Buffer
	enc, err := newEncoder(&buf, format, EncodeOptions{Schema: writtenSchema, Header: true})
	if err != nil {
		t.Fatal(err)
	}
	text := rapid.SampledFrom([]string{"", "a", "quote\"d, and\nmore\r\nlines", strings.Repeat("long", 150), strings.Repeat("too long", 300)})
	bad := rapid.SampledFrom([]int{2, 7, 1000}).Draw(t, "one bad row in")
	for group := range rapid.IntRange(0, 3).Draw(t, "groups") {
		b := batch.New(writtenSchema)
		b.Cols[0].Reset(dataflow.IntType, 0)
		for i := range rapid.SampledFrom([]int{0, 1, 5, 40, 300}).Draw(t, "rows") {
			if (i+1)%bad == 0 {
				b.Cols[0].AppendNull()
			} else {
				b.Cols[0].Append(&numbers(int64(1000*group + i)).Cols[0], 0)
			}
			s := ""
			if i%7 == 0 {
				s = text.Draw(t, "text")
			}
			b.Cols[1].AppendBytes([]byte(s))
			b.Len++
		}
		if err := enc.Encode(b); err != nil {
			t.Fatal(err)
		}
		if p, ok := enc.(*parquetEncoder); ok {
			err = p.writeGroup()
		} else {
			err = enc.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		if (format == "csv" || format == "ndjson") && rapid.Bool().Draw(t, "rubbish") {
			buf.WriteString("rub\"bish\n\n")
		}
	}
	if err := enc.Finish(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func smallTextBlocks(t *testing.T) {
	usual := usualSizes
	usualSizes = textSizes{block: 500, row: 1500, raw: 20}
	t.Cleanup(func() { usualSizes = usual })
}

// TestPositionsCutAnywhere: whatever is read is read once, however many sources follow each other.
func TestPositionsCutAnywhere(t *testing.T) {
	smallTextBlocks(t)
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		format := rapid.SampledFrom(formats).Draw(t, "format")
		ending := rapid.SampledFrom([]string{"", "", ".gz", ".zst"}).Draw(t, "compression")
		if format == "parquet" {
			ending = ""
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "files") {
			writeFile(t, filepath.Join(dir, fmt.Sprintf("%d.%s%s", i, format, ending)), packed(t, drawFile(t, format), ending))
		}
		policy := rapid.SampledFrom([]string{"skip", "dead-letter", "fail"}).Draw(t, "policy")
		params := map[string]string{"path": "*." + format + ending, "format": format, "on-error": policy}
		whole := readerOf(t, dir, params)
		var want, got received
		wantErr := want.read(whole, 1<<30)
		if err := whole.Close(); err != nil {
			t.Fatal(err)
		}
		var skipped, dead int64
		var position []byte
		for gotErr := error(nil); gotErr == nil; {
			s := readerOf(t, dir, params)
			if position != nil {
				if err := s.Seek(position); err != nil {
					t.Fatalf("after %d rows: %v", len(got.good), err)
				}
				if p := s.Position(); !bytes.Equal(p, position) {
					t.Fatalf("sought %q, at %q", position, p)
				}
			}
			for range rapid.IntRange(0, 6).Draw(t, "reads") {
				max := rapid.SampledFrom([]int{1, 3, 50, 1000}).Draw(t, "max")
				ctx := context.Background()
				if rapid.IntRange(0, 3).Draw(t, "waits not") == 0 {
					ctx = canceled()
				}
				r, err := s.Next(ctx, max)
				if errors.Is(err, context.Canceled) {
					continue
				}
				if gotErr = err; err != nil {
					break
				}
				got.add(r)
			}
			position = s.Position()
			skipped, dead = skipped+s.ctx.Counters.Skipped.Load(), dead+s.ctx.Counters.Dead.Load()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if gotErr != nil && gotErr.Error() != wantErr.Error() {
				t.Fatalf("ended with %v, want %v", gotErr, wantErr)
			}
		}
		if skipped != whole.ctx.Counters.Skipped.Load() || dead != whole.ctx.Counters.Dead.Load() {
			t.Fatalf("%d rows skipped and %d dead, want %d and %d", skipped, dead, whole.ctx.Counters.Skipped.Load(), whole.ctx.Counters.Dead.Load())
		}
		if !slices.Equal(got.good, want.good) || !slices.Equal(got.bad, want.bad) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func openCSV(t fatal, dir, path string, position []byte) *source {
	t.Helper()
	s := readerOf(t, dir, map[string]string{"path": path})
	if position != nil {
		if err := s.Seek(position); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestNewFiles: files that turn up are read after those that were there, and none is read twice.
func TestNewFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, number string) { writeFile(t, filepath.Join(dir, name), []byte("n,s\n"+number+",\n")) }
	file("b.csv", "1")
	file("d.csv", "2")
	s := openCSV(t, dir, "*.csv", nil)
	first := s.Position()
	goodRows(t, s, 1)
	second := s.Position()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file("a.csv", "4")
	file("e.csv", "5")
	s = openCSV(t, dir, "*.csv", second)
	if got := goodRows(t, s, 2); got != "2|NULL 4|NULL" {
		t.Errorf("read on with %q", got)
	}
	third := s.Position()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file("c.csv", "6")
	if err := os.Remove(filepath.Join(dir, "b.csv")); err != nil {
		t.Fatal(err)
	}
	if got := goodRows(t, openCSV(t, dir, "*.csv", third), -1); got != "5|NULL 6|NULL" {
		t.Errorf("at the end %q", got)
	}
	// Reading again what was read before the last position keeps its order.
	s = openCSV(t, dir, "*.csv", third)
	if err := s.Seek(first); err == nil || !strings.Contains(err.Error(), "b.csv") {
		t.Errorf("a position in a file that is gone: %v", err)
	}
	file("b.csv", "1")
	s = openCSV(t, dir, "*.csv", third)
	if err := s.Seek(first); err != nil {
		t.Fatal(err)
	}
	if got := goodRows(t, s, -1); got != "1|NULL 2|NULL 4|NULL 5|NULL 6|NULL" {
		t.Errorf("read again %q", got)
	}
}

func TestMovedFolder(t *testing.T) {
	root := t.TempDir()
	old, new := filepath.Join(root, "old"), filepath.Join(root, "new")
	if err := os.Mkdir(old, 0o777); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(old, "a.csv"), []byte("n,s\n1,\n2,\n"))
	s := openCSV(t, old, "a.csv", nil)
	goodRows(t, s, 1)
	position := s.Position()
	if err := errors.Join(s.Close(), os.Rename(old, new)); err != nil {
		t.Fatal(err)
	}
	if got := goodRows(t, openCSV(t, new, "a.csv", position), -1); got != "2|NULL" {
		t.Errorf("got %q", got)
	}
}

func TestChangedFiles(t *testing.T) {
	text := "n,s\n1,x\n2,x\n" + strings.Repeat("3,x\n", 20_000)
	for _, c := range []struct {
		name, path string
		n          int
		change     func(string) string
		want       string
	}{
		{"grown", "a.csv", 5, func(s string) string { return s + "4,x\n" }, ""},
		{"cut", "a.csv", 20_000, func(s string) string { return s[:100] }, "it has 100 bytes, where"},
		{"cut in the chunk", "a.csv", 5, func(s string) string { return s[:12] }, "it has 12 bytes, where"},
		{"other header", "a.csv", 20_000, func(s string) string { return "s,n" + s[3:] }, "what has been read of it is not the same"},
		{"other rows", "a.csv", 20_000, func(s string) string { return strings.Replace(s, "1,x", "9,x", 1) }, "what has been read of it is not the same"},
		{"packed and grown", "a.csv.gz", 5, func(s string) string { return s + s }, "bytes instead of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			ending := compression(c.path)
			writeFile(t, filepath.Join(dir, c.path), packed(t, []byte(text), ending))
			s := openCSV(t, dir, c.path, nil)
			goodRows(t, s, c.n)
			position := s.Position()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, c.path), packed(t, []byte(c.change(text)), ending))
			s = readerOf(t, dir, map[string]string{"path": c.path})
			err := s.Seek(position)
			if err == nil {
				_, err = s.Next(context.Background(), 1)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestFollowedFileIsFound: rows that were written to a followed file while nobody read it are read, also
// if it has been renamed since.
func TestFollowedFileIsFound(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(path string) error
		want   string
		gaps   int64
	}{
		{"grown", func(path string) error { return appendTo(path, "2,\n3,\n") }, "2|NULL 3|NULL", 0},
		{"renamed", func(path string) error {
			return errors.Join(appendTo(path, "2,\n"), os.Rename(path, path+".1"), appendTo(path, "n,s\n3,\n"))
		}, "2|NULL 3|NULL", 0},
		{"gone", func(path string) error {
			return errors.Join(os.Rename(path, filepath.Join(t.TempDir(), "elsewhere")), appendTo(path, "n,s\n8,\n9,\n"))
		}, "8|NULL 9|NULL", 1},
		{"cut", func(path string) error { return errors.Join(os.Truncate(path, 0), appendTo(path, "n,s\n")) }, "", 1},
		{"rewritten", func(path string) error {
			return errors.Join(os.Truncate(path, 0), appendTo(path, "s,n\n,7\n,8\n"))
		}, "7|NULL 8|NULL", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "log.csv")
			writeFile(t, path, []byte("n,s\n0,\n1,\n"))
			params := map[string]string{"path": "log.csv", "follow": "true"}
			s := readerOf(t, dir, params)
			if got := goodRows(t, s, 2); got != "0|NULL 1|NULL" {
				t.Fatal(got)
			}
			position := s.Position()
			s.Stop()
			if err := errors.Join(s.Close(), c.happen(path)); err != nil {
				t.Fatal(err)
			}
			s = readerOf(t, dir, params)
			if err := s.Seek(position); err != nil {
				t.Fatal(err)
			}
			n := 0
			if c.want != "" {
				n = 2
			} else if _, err := s.Next(canceled(), 1); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if got := goodRows(t, s, n); got != c.want {
				t.Errorf("read %q, want %q", got, c.want)
			}
			if gaps := s.ctx.Counters.Gaps.Load(); gaps != c.gaps {
				t.Errorf("%d gaps, want %d", gaps, c.gaps)
			}
			s.Stop()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestStandardInput(t *testing.T) {
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	path := filepath.Join(t.TempDir(), "in")
	writeFile(t, path, []byte("of somebody else\nn,s\n1,\n2,\n3,\n"))
	open := func() {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.Seek(17, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		os.Stdin = f
	}
	open()
	s := openCSV(t, "", "-", nil)
	if !s.Replays() {
		t.Error("a file on standard input cannot be read again")
	}
	goodRows(t, s, 1)
	position := s.Position()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open()
	if got := goodRows(t, openCSV(t, "", "-", position), -1); got != "2|NULL 3|NULL" {
		t.Errorf("read on with %q", got)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("n,s\n7,\n8,\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	os.Stdin = r
	s = openCSV(t, "", "-", position)
	if s.Replays() {
		t.Error("a pipe can be read again")
	}
	if got := goodRows(t, s, -1); got != "7|NULL 8|NULL" {
		t.Errorf("from a pipe %q", got)
	}
}

// TestDamagedPositions: no bytes make Seek panic, and only what Position gave is taken.
func TestDamagedPositions(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a.csv"), []byte("n,s\n1,\n2,\n"))
	s := openCSV(t, dir, "a.csv", nil)
	goodRows(t, s, 1)
	position := s.Position()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := readerOf(t, dir, map[string]string{"path": "*.csv"}).Seek(position); err == nil || !strings.Contains(err.Error(), "another input") {
		t.Errorf("another reader's position: %v", err)
	}
	for i := range position {
		damaged := bytes.Clone(position)
		damaged[i] ^= 1
		for _, p := range [][]byte{damaged, position[:i]} {
			if err := readerOf(t, dir, map[string]string{"path": "a.csv"}).Seek(p); err == nil {
				t.Errorf("position %q was taken for %q", p, position)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		body := append(bytes.Clone(position[:9]), rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")...)
		if rapid.Bool().Draw(t, "mostly right") {
			body = bytes.Clone(position[:len(position)-4])
			body[rapid.IntRange(9, len(body)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		sum := crc32.Checksum(body, positionCRC)
		parsePosition(binary.LittleEndian.AppendUint32(body, sum), binary.LittleEndian.Uint64(body[1:]))
	})
}

// pausing is a decoder that has one chunk now and more later.
type pausing struct {
	scripted
	given int
}

func (p *pausing) Next(ctx context.Context) (*Chunk, error) {
	if p.given++; p.given == 2 {
		return nil, ctx.Err()
	}
	return p.scripted.Next(ctx)
}

// TestPositionWhilePassingOver: a source that has not come to its position yet is still there.
func TestPositionWhilePassingOver(t *testing.T) {
	for _, format := range []string{"csv", "arrow"} {
		chunks := []*Chunk{{Batch: numbers(1, 2, 3), Offset: 10, Line: 1}, {Batch: numbers(4, 5, 6, 7), Offset: 16, Line: 4}}
		s := sourceOver(nil, "fail")
		s.format, s.dec, s.skip = format, &pausing{scripted: scripted{chunks}}, 5
		if _, err := s.Next(canceled(), 1); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if p := s.here(); p.rows != 5 {
			t.Errorf("%s: %d rows passed over, want 5", format, p.rows)
		}
		r, err := s.Next(context.Background(), 10)
		if err != nil || !slices.Equal(r.Batch.Cols[0].Ints, []int64{6, 7}) {
			t.Errorf("%s: %v, %v", format, r, err)
		}
	}
}
