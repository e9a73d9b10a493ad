package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/executor/state"
	"sluice/executor/state/shared"
)

// machine compares a shared state with what a few slices and maps say.
type machine struct {
	workers []shared.State
	coord   shared.State
	sources map[string]*modelSource
	sinks   map[string]*modelSink
	snaps   map[string]modelSnapshot
	decided map[int64]bool
	terms   map[shared.State]int64
	term    int64
	version int64
	record  string
	next    int64 // of attempts
}

type modelSource struct {
	gen     int64
	list    []state.Epoch
	rows    map[int64][]string
	current state.SourceLog
	zombies []state.SourceLog
	pending []string // rows of the epoch after the last
}

type modelSink struct {
	gen     int64
	some    bool
	epoch   int64
	witness string
	current state.SinkLog
	zombies []state.SinkLog
}

type modelSnapshot struct {
	hi     int64
	pieces []piece
}

func testModel(t *testing.T, fresh func(t testing.TB) Shared) {
	rapid.Check(t, func(rt *rapid.T) {
		open := fresh(t)
		m := &machine{
			sources: map[string]*modelSource{}, sinks: map[string]*modelSink{}, snaps: map[string]modelSnapshot{},
			decided: map[int64]bool{}, terms: map[shared.State]int64{},
		}
		must(rt, first(&m.coord)(open("coordinator", true)))
		for _, name := range []string{"a", "b", "c"} {
			var s shared.State
			must(rt, first(&s)(open(name, false)))
			m.workers = append(m.workers, s)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"openSource": m.openSource, "append": m.append, "append2": m.append, "append3": m.append,
			"rows": m.rows, "readRows": m.readRows, "trimSource": m.trimSource, "zombie": m.zombie,
			"openSink": m.openSink, "commit": m.commit, "commit2": m.commit, "zombieSink": m.zombieSink,
			"snapshot": m.snapshot, "trim": m.trim, "decide": m.decide, "claim": m.claim, "save": m.save,
			"": m.check,
		})
		m.close(rt)
	})
}

// first puts the first of two results into to.
func first[V any](to *V) func(V, error) error {
	return func(v V, err error) error {
		*to = v
		return err
	}
}

func (m *machine) worker(t *rapid.T) shared.State {
	return m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
}

func (m *machine) source(t *rapid.T) (string, *modelSource) {
	name := rapid.SampledFrom([]string{"left", "right/1"}).Draw(t, "source")
	if m.sources[name] == nil {
		m.sources[name] = &modelSource{gen: -1, rows: map[int64][]string{}}
	}
	return name, m.sources[name]
}

func (m *machine) openSource(t *rapid.T) {
	name, s := m.source(t)
	gen := max(0, s.gen+rapid.Int64Range(-2, 3).Draw(t, "step"))
	log, list, err := m.worker(t).OpenSource(name, gen)
	if gen < s.gen {
		is(t, err, state.ErrSealed)
		return
	}
	must(t, err)
	if d := cmp.Diff(s.list, list); d != "" {
		t.Fatal(d)
	}
	if s.current != nil {
		s.zombies = append(s.zombies, s.current)
	}
	s.gen, s.current, s.pending = gen, log, nil
}

func (s *modelSource) last() int64 {
	if len(s.list) == 0 {
		return 0
	}
	return s.list[len(s.list)-1].Epoch
}

func (m *machine) append(t *rapid.T) {
	name, s := m.source(t)
	if s.current == nil {
		return
	}
	e := epochOf(name, s.last()+1, s.last())
	if s.pending == nil {
		e.Epoch += rapid.Int64Range(0, 5).Draw(t, "skip")
	}
	must(t, s.current.Append(e))
	s.list = append(s.list, e)
	if s.pending != nil {
		s.rows[e.Epoch], s.pending = s.pending, nil
	}
}

func (m *machine) rows(t *rapid.T) {
	_, s := m.source(t)
	if s.current == nil {
		return
	}
	rows := rapid.StringN(0, 400, 400).Draw(t, "rows")
	must(t, s.current.(state.RowLog).AppendRows(s.last()+1, []byte(rows)))
	s.pending = append(s.pending, rows)
}

func (m *machine) readRows(t *rapid.T) {
	_, s := m.source(t)
	if len(s.list) == 0 {
		return
	}
	e := rapid.SampledFrom(s.list).Draw(t, "entry").Epoch
	var got []string
	must(t, s.current.(state.RowLog).Rows(e, func(rows []byte) error {
		got = append(got, string(rows))
		return nil
	}))
	if d := cmp.Diff(s.rows[e], got); d != "" {
		t.Fatalf("rows of %d: %s", e, d)
	}
}

func (m *machine) trimSource(t *rapid.T) {
	_, s := m.source(t)
	if s.current == nil {
		return
	}
	epoch := rapid.Int64Range(0, s.last()+3).Draw(t, "epoch")
	must(t, s.current.Trim(epoch))
	for len(s.list) > 1 && s.list[1].Epoch <= epoch {
		s.list = slices.Clone(s.list[1:])
	}
	if len(s.list) == 0 {
		s.list = nil
	}
}

func (m *machine) zombie(t *rapid.T) {
	name, s := m.source(t)
	if len(s.zombies) == 0 {
		return
	}
	z := s.zombies[rapid.IntRange(0, len(s.zombies)-1).Draw(t, "zombie")]
	var err error
	switch rapid.IntRange(0, 2).Draw(t, "what") {
	case 0:
		err = z.Append(epochOf(name, s.last()+100, s.last()))
	case 1:
		err = z.Trim(s.last() + 100)
	default:
		err = z.(state.RowLog).AppendRows(s.last()+100, []byte("of a zombie"))
	}
	// Rows of its own that no entry has got may be in the way.
	if a := (*state.AssertionError)(nil); !errors.As(err, &a) {
		is(t, err, state.ErrSealed)
	}
}

func (m *machine) sink(t *rapid.T) (string, *modelSink) {
	name := rapid.SampledFrom([]string{"left", "out"}).Draw(t, "sink")
	if m.sinks[name] == nil {
		m.sinks[name] = &modelSink{gen: -1}
	}
	return name, m.sinks[name]
}

func (m *machine) openSink(t *rapid.T) {
	name, s := m.sink(t)
	gen := max(0, s.gen+rapid.Int64Range(-2, 3).Draw(t, "step"))
	log, epoch, witness, err := m.worker(t).OpenSink(name, gen)
	if gen < s.gen {
		is(t, err, state.ErrSealed)
		return
	}
	must(t, err)
	if epoch != s.epoch || string(witness) != s.witness {
		t.Fatalf("commit %d %q, want %d %q", epoch, witness, s.epoch, s.witness)
	}
	if s.current != nil {
		s.zombies = append(s.zombies, s.current)
	}
	s.gen, s.current = gen, log
}

func (m *machine) commit(t *rapid.T) {
	_, s := m.sink(t)
	if s.current == nil {
		return
	}
	epoch := s.epoch + rapid.Int64Range(0, 3).Draw(t, "step")
	witness := rapid.StringN(0, 200, 200).Draw(t, "witness")
	if s.some && s.epoch > 0 {
		isAssertion(t, s.current.Commit(s.epoch-1, nil))
	}
	must(t, s.current.Commit(epoch, []byte(witness))) // the same epoch again gives it another witness
	s.some, s.epoch, s.witness = true, epoch, witness
}

func (m *machine) zombieSink(t *rapid.T) {
	_, s := m.sink(t)
	if len(s.zombies) == 0 {
		return
	}
	z := s.zombies[rapid.IntRange(0, len(s.zombies)-1).Draw(t, "zombie")]
	is(t, z.Commit(s.epoch+100, nil), state.ErrSealed)
}

func (m *machine) snapshot(t *rapid.T) {
	lo := rapid.Int64Range(0, 20).Draw(t, "lo")
	snap := modelSnapshot{hi: lo + rapid.Int64Range(0, 5).Draw(t, "range")}
	for range rapid.IntRange(0, 3).Draw(t, "pieces") {
		snap.pieces = append(snap.pieces, piece{rapid.IntRange(-1, 719).Draw(t, "group"), rapid.String().Draw(t, "piece")})
	}
	ref, err := writeSnapshot(m.worker(t), "key", rapid.Int64Range(0, 2).Draw(t, "gen"), lo, snap.hi, snap.pieces)
	must(t, err)
	if _, twice := m.snaps[ref]; twice {
		t.Fatalf("%q is two snapshots", ref)
	}
	m.snaps[ref] = snap
}

func (m *machine) refs() []string {
	var refs []string
	for ref := range m.snaps {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	return refs
}

func (m *machine) trim(t *rapid.T) {
	epoch := rapid.Int64Range(0, 25).Draw(t, "epoch")
	refs := m.refs()
	var keep []string
	if len(refs) > 0 {
		keep = append(keep, rapid.SampledFrom(refs).Draw(t, "keep"))
	}
	must(t, m.coord.Trim(epoch, keep))
	for _, ref := range refs {
		want := m.snaps[ref]
		gone := want.hi <= epoch && !slices.Contains(keep, ref)
		_, pieces, err := readSnapshot(m.worker(t), ref)
		if gone != (err != nil) || !gone && !cmp.Equal(pieces, want.pieces) {
			t.Fatalf("snapshot %q up to %d, trimmed to %d: %v", ref, want.hi, epoch, err)
		}
		if gone {
			delete(m.snaps, ref)
		}
	}
}

func (m *machine) decide(t *rapid.T) {
	m.next += rapid.Int64Range(0, 1).Draw(t, "next")
	commit := rapid.Bool().Draw(t, "commit")
	want, known := m.decided[m.next]
	was, wasKnown, err := m.worker(t).Decided(m.next)
	if must(t, err); was != want || wasKnown != known {
		t.Fatalf("decided %v %v, want %v %v", was, wasKnown, want, known)
	}
	if !known {
		want = commit
	}
	got, err := m.worker(t).Decide(m.next, commit)
	if must(t, err); got != want {
		t.Fatalf("decided %v, want %v", got, want)
	}
	m.decided[m.next] = want
}

func (m *machine) claim(t *rapid.T) {
	s, term := m.worker(t), m.term+rapid.Int64Range(-1, 2).Draw(t, "step")
	err := s.Claim(term)
	if term <= m.term {
		is(t, err, shared.ErrSuperseded)
		return
	}
	must(t, err)
	m.term, m.terms[s] = term, term
	m.version++
}

func (m *machine) save(t *rapid.T) {
	s, version := m.worker(t), m.version-rapid.Int64Range(0, 1).Draw(t, "old")
	record := rapid.String().Draw(t, "record")
	got, err := s.Save([]byte(record), version)
	switch {
	case m.terms[s] == 0:
		isAssertion(t, err)
	case m.terms[s] != m.term || version != m.version:
		is(t, err, shared.ErrSuperseded)
	default:
		must(t, err)
		m.version++
		m.record = record
		if got != m.version {
			t.Fatalf("version %d, want %d", got, m.version)
		}
	}
}

func (m *machine) check(t *rapid.T) {
	record, version, err := m.workers[0].Load()
	if must(t, err); string(record) != m.record || version != m.version {
		t.Fatalf("version %d %q, want %d %q", version, record, m.version, m.record)
	}
}

// close opens all logs once more, to see that they say what the model does.
func (m *machine) close(t *rapid.T) {
	for name, s := range m.sources {
		log, list, err := m.workers[0].OpenSource(name, s.gen+1)
		must(t, err)
		if d := cmp.Diff(s.list, list); d != "" {
			t.Fatal(d)
		}
		must(t, log.Close())
		for _, z := range append(s.zombies, s.current) {
			if z != nil {
				must(t, z.Close())
			}
		}
	}
	for name, s := range m.sinks {
		log, epoch, witness, err := m.workers[0].OpenSink(name, s.gen+1)
		must(t, err)
		if epoch != s.epoch || string(witness) != s.witness {
			t.Fatalf("commit %d %q, want %d %q", epoch, witness, s.epoch, s.witness)
		}
		must(t, log.Close())
		for _, z := range append(s.zombies, s.current) {
			if z != nil {
				must(t, z.Close())
			}
		}
	}
	for _, s := range append([]shared.State{m.coord}, m.workers...) {
		must(t, s.Close())
	}
}
