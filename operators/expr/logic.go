package expr

import (
	"math/bits"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// testValue makes a bool out of a test.
type testValue struct {
	test test
	typ  dataflow.Type
	vec  batch.Vector
	sel  []int32
}

func (e *testValue) eval(r *run, sel []int32) *batch.Vector {
	rows, valid := e.test.test(r, sel, e.sel)
	e.sel = rows
	e.vec.Reset(e.typ, r.n)
	e.vec.Valid = valid
	setRows(e.vec.Bits, r.n, rows)
	return &e.vec
}

// setRows sets the bits of the rows, and clears all others.
func setRows(m batch.Bitmap, n int, rows []int32) {
	clear(m[:batch.Words(n)])
	addRows(m, rows)
}

// addRows sets the bits of the rows, which are in rising order: a word is written once.
func addRows(m batch.Bitmap, rows []int32) {
	for j := 0; j < len(rows); {
		w, word := uint(rows[j])/64, uint64(0)
		for ; j < len(rows) && uint(rows[j])/64 == w; j++ {
			word |= 1 << (uint(rows[j]) % 64)
		}
		m[w] |= word
	}
}

// testSelector selects the rows for which a test has the answer yes.
type testSelector struct{ of test }

func (s *testSelector) rows(r *run, sel, dst []int32) []int32 {
	rows, valid := s.of.test(r, sel, dst)
	return keepSet(rows, valid)
}

type constantSelector bool

func (s constantSelector) rows(r *run, sel, dst []int32) []int32 {
	if s {
		return all(r.n, sel, dst)
	}
	return room(dst, 0)
}

// boolSelector selects the rows in which a bool is want.
type boolSelector struct {
	x    evaluator
	want bool
}

func (s *boolSelector) rows(r *run, sel, dst []int32) []int32 {
	x := s.x.eval(r, sel)
	return rowsOf(x.Bits, x.Valid, r.n, s.want, sel, dst)
}

// rowsOf lists the rows of sel whose bit is want and valid (nil: all are).
func rowsOf(m, valid batch.Bitmap, n int, want bool, sel, dst []int32) []int32 {
	var flip uint64
	if !want {
		flip = ^uint64(0)
	}
	dst = room(dst, count(n, sel))
	k := 0
	if sel != nil {
		for _, i := range sel {
			w, s := uint(i)/64, uint(i)%64
			bit := (m[w] ^ flip) >> s & 1
			if valid != nil {
				bit &= valid[w] >> s
			}
			dst[k] = i
			k += int(bit)
		}
		return dst[:k]
	}
	for w := range batch.Words(n) {
		word := m[w] ^ flip
		if valid != nil {
			word &= valid[w]
		}
		if rest := n - w*64; rest < 64 {
			word &= 1<<uint(rest) - 1
		}
		for ; word != 0; word &= word - 1 {
			dst[k] = int32(w*64 + bits.TrailingZeros64(word))
			k++
		}
	}
	return dst[:k]
}

// andSelector narrows the selection step by step.
type andSelector struct{ x, y selector }

func (s *andSelector) rows(r *run, sel, dst []int32) []int32 {
	rows := s.x.rows(r, sel, dst)
	if len(rows) == 0 {
		return rows
	}
	return s.y.rows(r, rows, rows)
}

// orSelector asks y only about the rows that x does not select.
type orSelector struct {
	x, y   selector
	rest   []int32
	chosen rowSet
}

func (s *orSelector) rows(r *run, sel, dst []int32) []int32 {
	s.rest = s.x.rows(r, sel, s.rest)
	s.chosen.set(r.n, s.rest)
	s.rest = s.chosen.others(r.n, sel, s.rest)
	if len(s.rest) > 0 {
		s.rest = s.y.rows(r, s.rest, s.rest)
		addRows(s.chosen.bits, s.rest)
	}
	return rowsOf(s.chosen.bits, nil, r.n, true, nil, dst)
}

// rowSet is a set of rows, to tell which of a selection are in it and which are not.
type rowSet struct{ bits batch.Bitmap }

// set makes rows, of n, the set.
func (s *rowSet) set(n int, rows []int32) {
	s.bits = batch.GrowBitmap(s.bits, n)
	setRows(s.bits, n, rows)
}

// others lists the rows of sel that are not in the set.
func (s *rowSet) others(n int, sel, dst []int32) []int32 {
	return rowsOf(s.bits, nil, n, false, sel, dst)
}

type isNullSelector struct {
	x   evaluator
	not bool
}

func (s *isNullSelector) rows(r *run, sel, dst []int32) []int32 {
	x := s.x.eval(r, sel)
	if x.Valid != nil {
		return rowsOf(x.Valid, nil, r.n, s.not, sel, dst)
	}
	return constantSelector(s.not).rows(r, sel, dst)
}

type isNullValue struct {
	x   evaluator
	not bool
	vec batch.Vector
}

func (e *isNullValue) eval(r *run, sel []int32) *batch.Vector {
	x := e.x.eval(r, sel)
	e.vec.Reset(dataflow.BoolType, r.n)
	if x.Valid == nil {
		e.vec.Bits.Fill(r.n, e.not)
		return &e.vec
	}
	var flip uint64
	if !e.not {
		flip = ^uint64(0)
	}
	for w := range batch.Words(r.n) {
		e.vec.Bits[w] = x.Valid[w] ^ flip
	}
	return &e.vec
}

type notValue struct {
	x   evaluator
	vec batch.Vector
}

func (e *notValue) eval(r *run, sel []int32) *batch.Vector {
	x := e.x.eval(r, sel)
	e.vec.Reset(dataflow.BoolType, r.n)
	e.vec.Valid = x.Valid
	for w := range batch.Words(r.n) {
		e.vec.Bits[w] = ^x.Bits[w]
	}
	return &e.vec
}

// logicValue computes AND and OR in three-valued logic. Unless y cannot fail (eager), it is computed
// only for the rows that x does not decide.
type logicValue struct {
	or, eager bool
	x, y      evaluator
	vec       batch.Vector
	valid     batch.Bitmap
	open      batch.Bitmap
	sel       []int32
}

func (e *logicValue) eval(r *run, sel []int32) *batch.Vector {
	x := e.x.eval(r, sel)
	if !e.eager {
		e.open = batch.GrowBitmap(e.open, r.n)
		for w := range batch.Words(r.n) {
			yes, no := truths(x, w)
			if e.or {
				e.open[w] = ^yes
			} else {
				e.open[w] = ^no
			}
		}
		e.sel = rowsOf(e.open, nil, r.n, true, sel, e.sel)
		sel = e.sel
	}
	y := e.y.eval(r, sel)
	e.vec.Reset(dataflow.BoolType, r.n)
	e.valid = batch.GrowBitmap(e.valid, r.n)
	e.vec.Valid = e.valid
	for w := range batch.Words(r.n) {
		xYes, xNo := truths(x, w)
		yYes, yNo := truths(y, w)
		yes, no := xYes&yYes, xNo|yNo
		if e.or {
			yes, no = xYes|yYes, xNo&yNo
		}
		e.vec.Bits[w], e.valid[w] = yes, yes|no
	}
	return &e.vec
}

// truths tells which rows of word w are TRUE and which are FALSE.
func truths(v *batch.Vector, w int) (yes, no uint64) {
	valid := ^uint64(0)
	if v.Valid != nil {
		valid = v.Valid[w]
	}
	return v.Bits[w] & valid, ^v.Bits[w] & valid
}

// distinct builds IS [NOT] DISTINCT FROM.
func (b *builder) distinct(t *typed) test {
	x, y := t.args[0], t.args[1]
	return &distinctTest{x: b.value(x), y: b.value(y), not: t.not, how: newPairing(equal, x.typ, y.typ)}
}

type distinctTest struct {
	x, y        evaluator
	not         bool
	how         pairing
	valid, same batch.Bitmap
	sel         []int32
}

func (t *distinctTest) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x, y := t.x.eval(r, sel), t.y.eval(r, sel)
	var valid batch.Bitmap
	valid, t.valid = joint(t.valid, r.n, x.Valid, y.Valid)
	t.sel = t.how.rows(x, y, valid, sel, t.sel)
	t.same = batch.GrowBitmap(t.same, r.n)
	setRows(t.same, r.n, t.sel)
	for w := range batch.Words(r.n) {
		vx, vy := validWord(x, w), validWord(y, w)
		t.same[w] = t.same[w]&vx&vy | ^vx & ^vy
	}
	return rowsOf(t.same, nil, r.n, t.not, sel, dst), nil
}

func validWord(v *batch.Vector, w int) uint64 {
	if v.Valid == nil {
		return ^uint64(0)
	}
	return v.Valid[w]
}
