package expr

import (
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// in builds x IN (...).
func (b *builder) in(t *typed) test {
	x, list := t.args[0], t.args[1:]
	constants, hasNull := true, false
	for _, e := range list {
		constants = constants && e.isConstant()
		hasNull = hasNull || e.isNull()
	}
	if constants {
		switch {
		case isText(x.typ):
			return newTextSet(b.value(x), list, hasNull, t.not)
		case x.typ.Kind == dataflow.Float || x.typ.Kind == dataflow.Decimal || x.typ.Kind == dataflow.Bool:
			return newNumberSet(b.value(x), list, hasNull, t.not)
		}
		return newIntSet(b.value(x), list, hasNull, t.not)
	}
	e := &listTest{x: b.value(x), list: b.values(list), not: t.not}
	for _, y := range list {
		e.how = append(e.how, newPairing(equal, x.typ, y.typ))
	}
	return e
}

// knownSet is the part of a set of constants that all types have in common.
type knownSet struct {
	x       evaluator
	hasNull bool // one of the constants is NULL: what is not found may be equal to that
	not     bool
	valid   batch.Bitmap
	found   []int32
	set     rowSet
}

// answer makes the answer of a test out of the rows that are found among the constants.
func (s *knownSet) answer(r *run, x *batch.Vector, sel, dst []int32) ([]int32, batch.Bitmap) {
	if s.hasNull {
		s.valid = batch.GrowBitmap(s.valid, r.n)
		s.found = keepSet(s.found, x.Valid)
		setRows(s.valid, r.n, s.found)
		if s.not {
			return room(dst, 0), s.valid
		}
		dst = room(dst, len(s.found))
		copy(dst, s.found)
		return dst, s.valid
	}
	if s.not {
		s.set.set(r.n, s.found)
		return s.set.others(r.n, sel, dst), x.Valid
	}
	dst = room(dst, len(s.found))
	copy(dst, s.found)
	return dst, x.Valid
}

// intSet looks integers up in a sorted list, or in a bitmap if they lie close together.
type intSet struct {
	knownSet
	values []int64
	bits   batch.Bitmap // bit v - values[0]; nil if they are too far apart
}

// bitmapSpan is up to which distance between the least and the largest of a set it is a bitmap.
const bitmapSpan = 1 << 16

func newIntSet(x evaluator, list []*typed, hasNull, not bool) *intSet {
	s := &intSet{knownSet: knownSet{x: x, hasNull: hasNull, not: not}}
	for _, e := range list {
		if !e.val.null {
			s.values = append(s.values, e.val.i)
		}
	}
	slices.Sort(s.values)
	if n := len(s.values); n > 0 {
		if width := uint64(s.values[n-1]) - uint64(s.values[0]); width < bitmapSpan {
			s.bits = make(batch.Bitmap, batch.Words(int(width)+1))
			for _, v := range s.values {
				s.bits.Set(int(v - s.values[0]))
			}
		}
	}
	return s
}

func (s *intSet) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x := s.x.eval(r, sel)
	s.found = room(s.found, count(r.n, sel))
	k := 0
	if s.bits != nil {
		k = s.lookUp(x.Ints, sel)
	} else {
		for j := range s.found {
			i := rowAt(sel, j)
			s.found[k] = i
			k += truth(s.has(x.Ints[i]))
		}
	}
	s.found = s.found[:k]
	return s.answer(r, x, sel, dst)
}

// lookUp finds the rows whose value has its bit set.
func (s *intSet) lookUp(x []int64, sel []int32) int {
	least, size, k := s.values[0], uint64(len(s.bits)*64), 0
	for j := range s.found {
		i := rowAt(sel, j)
		s.found[k] = i
		if at := uint64(x[i]) - uint64(least); at < size {
			k += int(s.bits[at/64] >> (at % 64) & 1)
		}
	}
	return k
}

// has looks a value up in the sorted list.
func (s *intSet) has(v int64) bool {
	lo, hi := 0, len(s.values)
	for lo < hi {
		if mid := (lo + hi) / 2; s.values[mid] < v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(s.values) && s.values[lo] == v
}

// textSet looks text up in a sorted list.
type textSet struct {
	knownSet
	values []string
}

func newTextSet(x evaluator, list []*typed, hasNull, not bool) *textSet {
	s := &textSet{knownSet: knownSet{x: x, hasNull: hasNull, not: not}}
	for _, e := range list {
		if !e.val.null {
			s.values = append(s.values, e.val.s)
		}
	}
	slices.SortFunc(s.values, strings.Compare)
	return s
}

func (s *textSet) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x := s.x.eval(r, sel)
	s.found = room(s.found, count(r.n, sel))
	k := 0
	for j := range s.found {
		i := rowAt(sel, j)
		s.found[k] = i
		k += truth(s.has(x.Bytes(int(i))))
	}
	s.found = s.found[:k]
	return s.answer(r, x, sel, dst)
}

func (s *textSet) has(v []byte) bool {
	lo, hi := 0, len(s.values)
	for lo < hi {
		if mid := (lo + hi) / 2; s.values[mid] < string(v) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(s.values) && s.values[lo] == string(v)
}

// numberSet looks values of the other kinds up in a sorted list, by the order that comparisons use.
type numberSet struct {
	knownSet
	values []number
}

// number is a constant with the scale that it has as a decimal.
type number struct {
	scalar
	scale uint8
}

func newNumberSet(x evaluator, list []*typed, hasNull, not bool) *numberSet {
	s := &numberSet{knownSet: knownSet{x: x, hasNull: hasNull, not: not}}
	for _, e := range list {
		if !e.val.null {
			s.values = append(s.values, number{e.val, e.typ.Scale})
		}
	}
	kind := list[0].typ.Kind
	slices.SortFunc(s.values, func(a, b number) int { return compareNumbers(kind, a, b) })
	return s
}

func compareNumbers(k dataflow.Kind, a, b number) int {
	switch k {
	case dataflow.Float:
		return compareFloats(a.f, b.f)
	case dataflow.Decimal:
		return compareDecimals(a.d, b.d, a.scale, b.scale)
	}
	return int(a.i - b.i)
}

func (s *numberSet) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x := s.x.eval(r, sel)
	s.found = room(s.found, count(r.n, sel))
	k := 0
	for j := range s.found {
		i := rowAt(sel, j)
		if !x.IsNull(int(i)) {
			s.found[k] = i
			k += truth(s.has(x.Type.Kind, number{scalarAt(x, int(i)), x.Type.Scale}))
		}
	}
	s.found = s.found[:k]
	return s.answer(r, x, sel, dst)
}

func (s *numberSet) has(k dataflow.Kind, v number) bool {
	_, ok := slices.BinarySearchFunc(s.values, v, func(a, b number) int { return compareNumbers(k, a, b) })
	return ok
}

// listTest compares x with one element after the other, each only for the rows that no earlier one is
// equal to.
type listTest struct {
	x                       evaluator
	list                    []evaluator
	not                     bool
	how                     []pairing // for each element
	rest, hits              []int32
	found, unknown, answers batch.Bitmap
}

func (t *listTest) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x := t.x.eval(r, sel)
	t.found, t.unknown = batch.GrowBitmap(t.found, r.n), batch.GrowBitmap(t.unknown, r.n)
	t.found.Fill(r.n, false)
	t.unknown.Fill(r.n, false)
	t.rest = keepSet(all(r.n, sel, t.rest), x.Valid)
	for k, e := range t.list {
		if len(t.rest) == 0 {
			break
		}
		y := e.eval(r, t.rest)
		if y.Valid != nil {
			for _, i := range t.rest {
				if !y.Valid.Get(int(i)) {
					t.unknown.Set(int(i))
				}
			}
		}
		t.hits = keepSet(t.how[k].rows(x, y, y.Valid, t.rest, t.hits), y.Valid)
		addRows(t.found, t.hits)
		t.rest = rowsOf(t.found, nil, r.n, false, t.rest, t.rest)
	}
	t.answers = batch.GrowBitmap(t.answers, r.n)
	for w := range batch.Words(r.n) {
		t.answers[w] = validWord(x, w) & (t.found[w] | ^t.unknown[w])
	}
	return rowsOf(t.found, nil, r.n, !t.not, sel, dst), t.answers
}
