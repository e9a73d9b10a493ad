package window

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/operators/expr"
)

// restart gives the operator's state to a new one with the same parameters and outputs.
func (r *rig) restart() *rig {
	next := r.with(r.outs)
	for _, p := range r.pieces() {
		if err := next.restore(p); err != nil {
			r.t.Fatal(err)
		}
	}
	return next
}

func (r *rig) pieces() []storedPiece { return snapshot(r.t, r.op.(operators.Stateful).Snapshot) }

func (r *rig) restore(p storedPiece) error {
	return r.op.(operators.Stateful).Restore(p.group, bytes.Clone(p.data))
}

// TestOperatorRestarts goes through the example of TestSessions and restarts after each epoch.
func TestOperatorRestarts(t *testing.T) {
	r := newRig(t, []string{"late"}, "group-by: k", "window: session(5s)", "select: k, count(*) AS n, first(v) AS f, window_start, window_end")
	r.rows(event{0, -100, "a", int64(1)}, event{5, -100, "a", int64(2)}, event{20, -100, "a", int64(3)}, event{12, -100, "a", int64(4)}, event{16, -100, "a", int64(5)})
	r.mark(8)
	r = r.restart()
	r.rows(event{3, 8, "a", int64(6)}, event{-2, 10, "a", int64(7)})
	r.mark(9)
	// The late row waits, with its columns, for its watermark to be reached.
	r = r.restart()
	r.end()
	expect(t, r.take(""), `
		{k: "a", n: 1, f: 1, window_start: 1970-01-01T00:00:00Z, window_end: 1970-01-01T00:00:05Z}
		{k: "a", n: 2, f: 2, window_start: 1970-01-01T00:00:03Z, window_end: 1970-01-01T00:00:10Z}
		{k: "a", n: 3, f: 3, window_start: 1970-01-01T00:00:12Z, window_end: 1970-01-01T00:00:25Z}`)
	expect(t, r.take("late"), `{ts: 1969-12-31T23:59:58Z, k: "a", v: 7}`)
}

// TestWatermarkIsRestored has a row whose watermark is below one that was reached before the restart.
func TestWatermarkIsRestored(t *testing.T) {
	for _, window := range []string{"session(5s)", "tumbling(5s)"} {
		r := newRig(t, []string{"late"}, "window: "+window, "select: count(*) AS n")
		r.mark(10)
		r = r.restart()
		r.rows(event{1, 3, "a", nil})
		r.end()
		expect(t, r.take(""), "")
		expect(t, r.take("late"), `{ts: 1970-01-01T00:00:01Z, k: "a", v: NULL}`)
	}
}

// TestLargeSumIsRestored has sums that are out of the range of 64 bits, or 38 digits, at the restart.
func TestLargeSumIsRestored(t *testing.T) {
	const big = int64(1) << 62
	r := newRig(t, nil, "group-by: k", "select: k, sum(v) AS s, sum(cast(v as decimal(38,0)) * 20000000000000000000) / 20000000000000000000 AS d")
	r.rows(event{0, 0, "a", big}, event{0, 0, "b", -big}, event{0, 0, "a", big}, event{0, 0, "b", -big}, event{0, 0, "c", int64(1)}, event{0, 0, "b", -big})
	r = r.restart()
	r.rows(event{0, 0, "a", -big}, event{0, 0, "b", big}, event{0, 0, "b", big}, event{0, 0, "c", int64(2)})
	r.end()
	if got := r.take(""); strings.Count(got, "\n") != 2 || !strings.Contains(got, "s: 4611686018427387904") ||
		!strings.Contains(got, "s: -4611686018427387904") || !strings.Contains(got, "s: 3") {
		t.Errorf("got\n%s", got)
	}
}

func TestNothingToKeep(t *testing.T) {
	for _, group := range []string{"", "group-by: k"} {
		for _, window := range []string{"", "tumbling(5s)", "hopping(5s, 2s)", "session(5s)", "rows(5)", "rows(5, 2)"} {
			params := []string{"select: count(*) AS n", "window: " + window}
			if group != "" {
				params = append(params, group)
			}
			r := newRig(t, nil, params...)
			if p := r.pieces(); len(p) != 0 {
				t.Errorf("%s: a new operator has %d pieces of state", window, len(p))
			}
			r.mark(100)
			// One piece for the watermark and, without keys and window, one for the group that is always there.
			want := 1
			if group == "" && window == "" {
				want = 2
			}
			if p := r.pieces(); len(p) != want || p[0].group != operators.WholeState || len(p[0].data) > 250 {
				t.Errorf("%s: an operator without rows has pieces %v", window, p)
			}
			r = r.restart()
			r.end()
			n := ""
			if want == 2 {
				n = "{n: 0}"
			}
			expect(t, r.take(""), n)
		}
	}
}

// TestPiecesAreOfTheSplittersGroups: state is where a splitter with the key hash(k, v % 2) sends rows.
func TestPiecesAreOfTheSplittersGroups(t *testing.T) {
	hash, errs := expr.Compile("hash(k, v % 2)", expr.NewScope("in", inputSchema))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, window := range []string{"", "tumbling(5s)", "session(5s)", "rows(5)"} {
		r := newRig(t, nil, "group-by: k, v % 2", "select: k, count(*) AS n", "window: "+window)
		events := []event{{1, -9, "a", int64(3)}, {1, -9, "a", int64(2)}, {1, -9, nil, int64(5)}, {1, -9, "", nil}, {1, -9, "ä", int64(-1)}}
		r.rows(events...)
		r.mark(-9)
		want := []int{operators.WholeState}
		for _, h := range hash.Eval(&expr.Context{}, eventBatch(events), nil).Ints[:len(events)] {
			want = append(want, expr.KeyGroup(h))
		}
		var got []int
		for _, p := range r.pieces() {
			got = append(got, p.group)
		}
		slices.Sort(want)
		if !slices.Equal(got, slices.Compact(want)) {
			t.Errorf("%s: pieces of the key groups %v, want %v", window, got, want)
		}
	}
}

func TestOtherParametersAreRefused(t *testing.T) {
	base := []string{"group-by: k", "window: hopping(10s, 5s)", "allowed-lateness: 1s", "select: sum(v) FILTER (WHERE v > 1) AS s, count(*) AS n"}
	r := newRig(t, nil, base...)
	r.rows(event{1, -100, "a", int64(1)})
	r.mark(-50)
	pieces := r.pieces()
	for _, c := range []struct {
		at   int
		text string
		want string
	}{
		{0, "group-by: upper(k)", `"group-by: k string", and this one has "group-by: upper(k) string"`},
		{1, "window: hopping(20s, 5s)", `"window: hopping(10s, 5s)", and this one has "window: hopping(20s, 5s)"`},
		{1, "window: tumbling(10s)", `and this one has "window: tumbling(10s)"`},
		{2, "allowed-lateness: 2s", `"allowed-lateness: 1s", and this one has "allowed-lateness: 2s"`},
		{3, "select: sum(v) FILTER (WHERE v > 2) AS s, count(*) AS n", `"aggregate 1: sum(v int) int filter v > 1", and this one has "aggregate 1: sum(v int) int filter v > 2"`},
		{3, "select: sum(v) FILTER (WHERE v > 1) AS s, count(v) AS n", `"aggregate 2: count(*) int", and this one has "aggregate 2: count(v int) int"`},
		{3, "select: sum(v) FILTER (WHERE v > 1) AS s", `"aggregate 2: count(*) int", and this one has "late rows: "`},
		{3, "select: sum(v) FILTER (WHERE v>1) AS other, count(*) AS m, k AS name", ""},
		{0, "group-by:  k ", ""},
		{2, "allowed-lateness: 1000ms", ""},
	} {
		params := slices.Clone(base)
		params[c.at] = c.text
		for _, p := range pieces {
			err := newRig(t, nil, append(params, "having: sum(v) FILTER (WHERE v > 1) > 3")...).restore(p)
			if c.want == "" && err != nil {
				t.Errorf("%s: %v", c.text, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: error %v, want %s", c.text, err, c.want)
			}
		}
	}
}

// examples are operators of all kinds with some state.
func examples(t interface{ Fatal(...any) }) []*rig {
	const calls = "count(*), count(DISTINCT v), sum(v), sum(DISTINCT v / 2.0), avg(v), min(k), max(v), max(v * 1.5), stddev_samp(v), first(k), last(v), " +
		"avg(cast(v as decimal(20,2))), min(cast(v as decimal(20,2))) FILTER (WHERE v > 2), min(v > 1)"
	var list []*rig
	for _, window := range []string{"", "tumbling(5s)", "hopping(5s, 2s)", "session(5s)", "rows(5)", "rows(5, 2)"} {
		for _, group := range []string{"", "k", "k, v % 2, v / 2.0, cast(v as decimal(10,2)), v > 0"} {
			params := []string{"select: " + aliased(calls), "window: " + window, "group-by: " + group, "on-error: skip"}
			var ports []string
			if window != "" && window[0] != 'r' {
				params, ports = append(params, "allowed-lateness: 2s"), []string{"late"}
			}
			r := newRig(t, ports, params...)
			for i := range int64(12) {
				r.rows(event{2 * i, 2*i - 1, []any{"a", "bb", nil}[i%3], i % 5}, event{i, 2 * i, "c", nil}, event{2*i - 6, 2*i + 1, "c", -i})
			}
			r.mark(10)
			list = append(list, r)
		}
	}
	return list
}

// aliased gives each call a name.
func aliased(calls string) string {
	var out []string
	for i, c := range strings.Split(calls, ", ") {
		out = append(out, fmt.Sprintf("%s AS c%d", c, i))
	}
	text := strings.Join(out, ", ")
	// The comma of decimal(20,2) has no space, so it is not one of those.
	return text
}

// fresh is an operator with the same parameters.
func (r *rig) fresh() *rig {
	outs := map[string]*gather{}
	for _, o := range r.ctx.Op.Outputs {
		outs[o.Port] = &gather{}
	}
	return r.with(outs)
}

// with is an operator with the same parameters and the given outputs.
func (r *rig) with(outs map[string]*gather) *rig {
	next := &rig{t: r.t, outs: outs}
	next.ctx = &operators.Context{Op: r.ctx.Op, Clock: new(int64), Counters: &operators.Counters{}}
	for _, o := range r.ctx.Op.Outputs {
		next.ctx.Outputs = append(next.ctx.Outputs, outs[o.Port])
	}
	var err error
	if next.op, err = New(next.ctx); err != nil {
		r.t.Fatal(err)
	}
	return next
}

func TestDamagedPieces(t *testing.T) {
	for _, r := range examples(t) {
		window := r.ctx.Op.Value("window")
		pieces := r.pieces()
		for _, p := range slices.Concat(pieces[:2], pieces[max(2, len(pieces)-1):]) {
			for i := range p.data {
				if i%59 > 0 && (i < len(p.data)-200 || i%7 > 0) {
					continue
				}
				bad := storedPiece{p.group, bytes.Clone(p.data)}
				bad.data[i] ^= 1 << (i % 8)
				if r.fresh().restore(bad) == nil {
					t.Fatalf("%s: a wrong byte %d of %d is accepted", window, i, len(p.data))
				}
				// With a checksum that is right there may be no error, but nothing else.
				bad.seal()
				r.fresh().tryOut(bad)
				short := storedPiece{p.group, append(bytes.Clone(p.data[:i]), make([]byte, 8)...)}
				short.seal()
				if r.fresh().restore(short) == nil && i != len(p.data)-8 {
					t.Fatalf("%s: %d bytes of %d are accepted", window, i, len(p.data))
				}
			}
			for _, group := range []int{-2, operators.WholeState, (p.group + 1) % dataflow.KeyGroups, dataflow.KeyGroups} {
				if group != p.group && r.fresh().restore(storedPiece{group, p.data}) == nil {
					t.Errorf("%s: a piece of key group %d is taken as one of %d", window, p.group, group)
				}
			}
		}
	}
}

// seal makes the checksum right.
func (p storedPiece) seal() {
	if n := len(p.data) - 8; n >= 0 {
		binary.LittleEndian.PutUint64(p.data[n:], xxh3.Hash(p.data[:n]))
	}
}

// tryOut restores a piece and, if that is possible, goes on.
func (r *rig) tryOut(p storedPiece) {
	if r.restore(p) == nil {
		r.goOn()
	}
}

// goOn has some rows, a snapshot and the end.
func (r *rig) goOn() {
	r.process(event{5, 1, "c", int64(1)}, event{50, 40, "a", int64(2)})
	r.op.EndEpoch(operators.Mark{Watermark: 45 * second})
	r.op.(operators.Stateful).Snapshot(func(int, []byte) error { return nil })
	r.op.EndEpoch(operators.Mark{Watermark: batch.MaxWatermark, End: true})
}

func TestPiecesThatDoNotGoTogether(t *testing.T) {
	for _, r := range examples(t) {
		window := r.ctx.Op.Value("window")
		next := r.fresh()
		pieces := r.pieces()
		for _, p := range pieces {
			if err := next.restore(p); err != nil {
				t.Fatalf("%s: %v", window, err)
			}
		}
		r.mark(11)
		later := r.pieces()
		if window != "" && window[0] != 'r' {
			if err := next.restore(later[0]); err == nil || !strings.Contains(err.Error(), "another epoch") {
				t.Errorf("%s: a piece of another epoch gives %v", window, err)
			}
		}
		if err := next.restore(pieces[1]); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%s: a piece that is given again gives %v", window, err)
		}
	}
}

// FuzzRestore gives an operator pieces whose frame is right.
func FuzzRestore(f *testing.F) {
	rigs := examples(f)
	heads := make([][]byte, len(rigs))
	for i, r := range rigs {
		heads[i] = r.op.(*aggregate).frozen(nil).head
		for _, p := range r.pieces() {
			f.Add(i, p.group, p.data[len(heads[i]):len(p.data)-8])
		}
	}
	f.Fuzz(func(t *testing.T, kind, group int, body []byte) {
		i := int(uint(kind) % uint(len(rigs)))
		p := storedPiece{group, slices.Concat(heads[i], body, make([]byte, 8))}
		p.seal()
		r := rigs[i].fresh()
		r.t = t
		r.tryOut(p)
	})
}

// TestLargeStateIsDivided has more entries, more text and more distinct values than fit into one piece
// or one block of it.
func TestLargeStateIsDivided(t *testing.T) {
	many, texts, values := []event{}, []event{}, []event{}
	for i := range int64(pieceEntries + 100) {
		many = append(many, event{time: i, watermark: -9, key: "a"})
		values = append(values, event{watermark: -9, value: i})
	}
	for i := range int64(2) {
		texts = append(texts, event{time: i, watermark: -9, key: strings.Repeat(fmt.Sprint(i), pieceText/2+1)})
	}
	for _, c := range []struct {
		events []event
		window string
		result string
		pieces int // beside the one for the watermark
	}{
		{many, "tumbling(1s)", "count(*)", 2},
		{texts, "tumbling(1s)", "length(max(k))", 2},
		{values, "tumbling(1s)", "count(DISTINCT v)", 1},
	} {
		r := newRig(t, nil, "window: "+c.window, "select: window_start, "+c.result+" AS r")
		r.rows(c.events...)
		r.mark(-9)
		other := r.fresh()
		pieces := r.pieces()
		if len(pieces) != 1+c.pieces {
			t.Errorf("%s with %s: %d pieces, want %d", c.window, c.result, len(pieces), 1+c.pieces)
		}
		for _, p := range pieces {
			if err := other.restore(p); err != nil {
				t.Fatal(err)
			}
		}
		r.end()
		other.end()
		if got, want := other.take(""), r.take(""); got != want || want == "" {
			t.Errorf("%s with %s: restored gives other rows", c.window, c.result)
		}
	}
}

// TestTooMuchTextOfAKey cannot have 2 GiB of text, and says that it has.
func TestTooMuchTextOfAKey(t *testing.T) {
	e := &encoder{}
	e.checkText([]int64{math.MaxInt32 - 5, 5})
	if e.err != nil {
		t.Error(e.err)
	}
	p := pieces{keep: func(int, []byte) error { return nil }}
	err := p.piece(0, partEntries, func(e *encoder) { e.checkText([]int64{math.MaxInt32 - 5, 6}) })
	if err == nil || !strings.Contains(err.Error(), "2147483648 bytes of text") {
		t.Errorf("error %v", err)
	}
}

// TestSnapshotEndsWithAnError: what keep returns comes back.
func TestSnapshotEndsWithAnError(t *testing.T) {
	full := errors.New("the disk is full")
	for _, r := range examples(t) {
		for n := range r.pieces() {
			err := r.op.(operators.Stateful).Snapshot(func(int, []byte) error {
				if n--; n < 0 {
					return full
				}
				return nil
			})
			if !errors.Is(err, full) {
				t.Errorf("%s: a snapshot that cannot be kept gives %v", r.ctx.Op.Value("window"), err)
			}
		}
	}
}
