package file

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// hand is a reader that waits for each piece of its text.
type hand struct {
	pieces chan string // closed at the end
	rest   string
}

func (h *hand) Read(p []byte) (int, error) {
	if h.rest == "" {
		s, ok := <-h.pieces
		if !ok {
			return 0, io.EOF
		}
		h.rest = s
	}
	n := copy(p, h.rest)
	h.rest = h.rest[n:]
	return n, nil
}

func TestLiveRowsAreNotHeldBack(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := &hand{pieces: make(chan string)}
	d, err := newCSVDecoder(h, DecodeOptions{Schema: columns(t, "a int"), Header: true, Live: true, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for i, step := range []struct {
		pieces []string
		want   []string
	}{{[]string{"a", "\n1\n2\n3"}, []string{"1", "2"}}, {[]string{"4\n"}, []string{"34"}}, {[]string{"\"5", "\"\r", "\n"}, []string{"5"}}} {
		if _, err := d.Next(done); !errors.Is(err, context.Canceled) {
			t.Fatalf("step %d: Next without input: %v", i, err)
		}
		for _, p := range step.pieces {
			h.pieces <- p
		}
		c, err := d.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := chunkRows(c); err != nil || !slices.Equal(got, step.want) {
			t.Fatalf("step %d: got %q, %v, want %q", i, got, err, step.want)
		}
	}
	close(h.pieces)
	for range 2 {
		if _, err := d.Next(context.Background()); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFirstLiveRowIsNotHeldBack(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := &hand{pieces: make(chan string)}
	d, err := newCSVDecoder(h, DecodeOptions{Schema: columns(t, "a int"), Live: true})
	if err != nil {
		t.Fatal(err)
	}
	h.pieces <- "1\n" // shorter than a byte order mark
	c, err := d.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := chunkRows(c); err != nil || !slices.Equal(got, []string{"1"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	close(h.pieces)
}

func TestCloseWhileReadBlocks(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := &hand{pieces: make(chan string)}
	d, err := newCSVDecoder(h, DecodeOptions{Schema: columns(t, "a int"), Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	h.pieces <- "1\n" // not live: the decoder waits for more
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	close(h.pieces) // what Read waits for
}

func TestCloseInTheMiddle(t *testing.T) {
	defer goleak.VerifyNone(t)
	f, err := newCSVFormat(DecodeOptions{Schema: columns(t, "a int")})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("1\n", 10_000)
	for n := range 20 {
		d := newTextDecoder(strings.NewReader(text), f, DecodeOptions{Schema: f.schema, Workers: 2}, textSizes{block: 100, row: 200, raw: 5})
		for range n {
			if _, err := d.Next(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		text string
		want []string
	}{{"1\n2\n3", []string{"1", "2"}}, {"1", nil}, {"", nil}} {
		d, err := newCSVDecoder(io.MultiReader(strings.NewReader(c.text), &failing{broken}), DecodeOptions{Schema: columns(t, "a int")})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := drainDecoder(d); !errors.Is(err, broken) || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, %v", c.text, got, err)
		}
	}
	d, err := newCSVDecoder(&failing{nil}, DecodeOptions{Schema: columns(t, "a int")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := drainDecoder(d); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

// failing gives nothing but its error.
type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// lineOf is a reader of one line of n bytes x, after some other text and before more.
func lineOf(before string, n int, after string) io.Reader {
	return io.MultiReader(strings.NewReader(before), &repeated{text: bytes.Repeat([]byte("x"), 1<<20), n: n >> 20}, strings.NewReader(after))
}

func TestRowThatIsTooLarge(t *testing.T) {
	schema := columns(t, "a string")
	for _, c := range []struct {
		name string
		r    func() io.Reader
		want int // bytes of the large row; -1 for a bad one
	}{
		{"just fits", func() io.Reader { return lineOf("1\n", 15<<20, "\n2\n") }, 15 << 20},
		{"too large", func() io.Reader { return lineOf("1\n", 40<<20, "y\n2\n") }, -1},
		{"quote that is not closed", func() io.Reader { return lineOf("1\n\"\n\n", 40<<20, "y\n2\n") }, -1},
	} {
		for _, live := range []bool{false, true} {
			d, err := newCSVDecoder(c.r(), DecodeOptions{Schema: schema, Workers: 2, Live: live})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for {
				chunk, err := d.Next(context.Background())
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				rows, err := chunkRows(chunk)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, rows...)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if len(got) != 3 || got[0] != "1" || got[2] != "2" {
				t.Fatalf("%s: %d rows", c.name, len(got))
			}
			switch large := got[1]; {
			case c.want >= 0 && len(large) != c.want:
				t.Errorf("%s: the row has %d bytes", c.name, len(large))
			case c.want < 0 && (!strings.HasPrefix(large, "2: the row is longer than 16777216 bytes [") || len(large) > 70<<10):
				t.Errorf("%s: the row is %.100q", c.name, large)
			}
		}
	}
}

// TestDecodersReuseMemory decodes a long input: the memory allocated must not grow with it.
func TestDecodersReuseMemory(t *testing.T) {
	for _, format := range []string{"csv", "ndjson"} {
		t.Run(format, func(t *testing.T) {
			row := "17,2.5,some text,2001-01-01T00:00:00Z\n,,\"quo\"\"te\",2001-01-01\n"
			open := newCSVDecoder
			if format == "ndjson" {
				row = `{"key":17,"price":2.5,"word":"some text","at":"2001-01-01T00:00:00Z"}` + "\n" + `{"word":"\u00e9","other":[1],"at":0}` + "\n"
				open = newNDJSONDecoder
			}
			text := []byte(strings.Repeat(row, 2_500))
			read := func(times int) float64 {
				return testing.AllocsPerRun(1, func() {
					d, err := open(&repeated{text: text, n: times}, DecodeOptions{Schema: benchTextSchema(t), Workers: 2})
					if err != nil {
						t.Fatal(err)
					}
					if n := countTextRows(t, d); n != times*5_000 {
						t.Fatal(n, "rows")
					}
				})
			}
			short, long := read(20), read(80)
			if long > short+50 { // for 300,000 more rows
				t.Errorf("%v allocations for 100,000 rows, %v for 400,000", short, long)
			}
		})
	}
}

func TestEncodeRoundTrip(t *testing.T) {
	const schema = "b bool,i int,f float,d decimal,s string,y bytes,t timestamp,u duration"
	const text = "true,1,1.5,2.25,\"a,\"\"b\"\"\n\r\",aGk=,2001-01-01T06:55:00.5Z,1h30m\n,,,,,,,\nfalse,-1,1e+21,0,\"\",\"\",0001-01-01T00:00:00Z,0s\n"
	want, err := readCSV(t, schema, text, DecodeOptions{})
	if err != nil || len(want) != 3 {
		t.Fatal(want, err)
	}
	for _, c := range []struct {
		name string
		enc  encoderFunc
		dec  func(io.Reader, DecodeOptions) (Decoder, error)
		o    EncodeOptions
		out  string // the whole output, "" if it is not looked at
	}{
		{"csv", newCSVEncoder, newCSVDecoder, EncodeOptions{Header: true}, "b,i,f,d,s,y,t,u\n" + text},
		{"csv without header", newCSVEncoder, newCSVDecoder, EncodeOptions{}, text},
		{"csv with null text", newCSVEncoder, newCSVDecoder, EncodeOptions{Null: "1.5"}, ""},
		{"csv with a dot", newCSVEncoder, newCSVDecoder, EncodeOptions{Delimiter: '.', Header: true}, ""},
		{"csv with a digit", newCSVEncoder, newCSVDecoder, EncodeOptions{Delimiter: '1'}, ""},
		{"ndjson", newNDJSONEncoder, newNDJSONDecoder, EncodeOptions{}, `{"b":true,"i":1,"f":1.5,"d":"2.25","s":"a,\"b\"\n\r","y":"aGk=","t":"2001-01-01T06:55:00.5Z","u":"1h30m"}
{"b":null,"i":null,"f":null,"d":null,"s":null,"y":null,"t":null,"u":null}
{"b":false,"i":-1,"f":1e+21,"d":"0","s":"","y":"","t":"0001-01-01T00:00:00Z","u":"0s"}
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := newCSVDecoder(strings.NewReader(text), DecodeOptions{Schema: columns(t, schema)})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			chunk, err := d.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			c.o.Schema = chunk.Batch.Schema
			e, err := c.enc(&out, c.o)
			if err != nil {
				t.Fatal(err)
			}
			selected := *chunk.Batch
			selected.Sel = []int32{2}
			if err := errors.Join(e.Encode(chunk.Batch), e.Encode(&selected), e.Finish()); err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(text, "\n")
			if c.name == "ndjson" {
				lines = strings.SplitAfter(c.out, "\n")
			}
			if c.out != "" && out.String() != c.out+lines[len(lines)-2] {
				t.Errorf("got\n%s\nwant\n%s", &out, c.out)
			}
			again, err := c.dec(&out, DecodeOptions{Schema: c.o.Schema, Header: c.o.Header, Delimiter: c.o.Delimiter, Null: c.o.Null})
			if err != nil {
				t.Fatal(err)
			}
			got, err := drainDecoder(again)
			if err != nil || !slices.Equal(got, append(slices.Clone(want), want[2])) {
				t.Errorf("read back as %q, %v", got, err)
			}
		})
	}
}

func TestEncodeNothing(t *testing.T) {
	for _, c := range []struct {
		enc  encoderFunc
		want string
	}{{newCSVEncoder, "a,\"b,c\"\n"}, {newNDJSONEncoder, ""}} {
		var out bytes.Buffer
		e, err := c.enc(&out, EncodeOptions{Schema: columns(t, "a int"), Header: true})
		if c.want != "" {
			s := columns(t, "a int,b int")
			s.Columns[1].Name = "b,c"
			e, err = c.enc(&out, EncodeOptions{Schema: s, Header: true})
		}
		if err := errors.Join(err, e.Flush(), e.Finish()); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("no rows are written as %q, want %q", &out, c.want)
		}
	}
	if _, err := newCSVEncoder(io.Discard, EncodeOptions{Schema: columns(t, "a int"), Delimiter: '"'}); err == nil {
		t.Error("a quote is taken for a delimiter")
	}
}

func TestNullInOneColumnIsABlankLine(t *testing.T) {
	const text = "a\nx\n\n\"\"\n"
	schema := columns(t, "a string")
	d, err := newCSVDecoder(strings.NewReader(text), DecodeOptions{Schema: schema, Header: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := d.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := chunkRows(c); err != nil || !slices.Equal(got, []string{"x", "NULL", ""}) {
		t.Errorf("read as %q, %v", got, err)
	}
	var out bytes.Buffer
	e, err := newCSVEncoder(&out, EncodeOptions{Schema: schema, Header: true})
	if err := errors.Join(err, e.Encode(c.Batch), e.Finish()); err != nil || out.String() != text {
		t.Errorf("written as %q, %v", &out, err)
	}
}
