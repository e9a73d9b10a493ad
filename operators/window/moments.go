package window

import (
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// moments is the state of var_samp and stddev_samp of floats: number, mean and sum of squared distances from the
// mean, kept after Welford, whose method does not lose digits when the mean is large.
type moments struct {
	root bool // stddev_samp
	n    []float64
	mean []float64
	m2   []float64
}

func newMoments(c call) *moments { return &moments{root: c.fn == stddevSamp} }

func (a *moments) grow(n int) {
	a.n, a.mean, a.m2 = extend(a.n, n), extend(a.mean, n), extend(a.m2, n)
}

func (a *moments) update(u *update) {
	for i := range u.size() {
		r := u.row(i)
		s, x := u.slots[r], u.arg.Floats[r]
		n := a.n[s] + 1
		d := x - a.mean[s]
		mean := a.mean[s] + d/n
		a.n[s], a.mean[s] = n, mean
		a.m2[s] += d * (x - mean)
	}
}

// merge joins two states after Chan, Golub and LeVeque.
func (a *moments) merge(dst, src []int32) {
	for i, d := range dst {
		s := src[i]
		if a.n[s] == 0 {
			continue
		}
		n := a.n[d] + a.n[s]
		delta := a.mean[s] - a.mean[d]
		a.mean[d] += delta * a.n[s] / n
		a.m2[d] += a.m2[s] + delta*delta*a.n[d]*a.n[s]/n
		a.n[d] = n
	}
}

func (a *moments) reset(slots []int32) {
	for _, s := range slots {
		a.n[s], a.mean[s], a.m2[s] = 0, 0, 0
	}
}

func (a *moments) result(slots []int32, out *batch.Vector, _ *faults) {
	valid := out.Valid
	out.Reset(dataflow.FloatType, len(slots))
	out.Valid = batch.GrowBitmap(valid, len(slots))
	for i, s := range slots {
		out.Valid.SetTo(i, a.n[s] >= 2)
		v := a.m2[s] / (a.n[s] - 1)
		if a.root {
			v = math.Sqrt(v)
		}
		out.Floats[i] = v
	}
}

func (a *moments) size(int32) int { return 0 }

// pick is the state of first(x) and last(x): the value whose row comes first or last in the stream.
// Rows may be added in another order.
type pick struct {
	value column
	seq   []int64 // 1 + place in the stream of the row that the value is from; 0: there is none
	last  bool
}

func newPick(c call) *pick { return &pick{value: column{typ: c.arg}, last: c.fn == last} }

func (a *pick) grow(n int) {
	a.value.grow(n)
	a.seq = extend(a.seq, n)
}

func (a *pick) update(u *update) {
	for i := range u.size() {
		r := u.row(i)
		s, seq := u.slots[r], u.rowSeq(r)+1
		if a.better(seq, a.seq[s]) {
			a.seq[s] = seq
			a.value.set(s, u.arg, int(r))
		}
	}
}

func (a *pick) better(seq, old int64) bool {
	return old == 0 || a.last && seq > old || !a.last && seq < old
}

func (a *pick) merge(dst, src []int32) {
	for i, d := range dst {
		if seq := a.seq[src[i]]; seq != 0 && a.better(seq, a.seq[d]) {
			a.seq[d] = seq
			a.value.copyValue(d, src[i])
		}
	}
}

func (a *pick) reset(slots []int32) {
	a.value.release(slots)
	for _, s := range slots {
		a.seq[s] = 0
	}
}

func (a *pick) result(slots []int32, out *batch.Vector, _ *faults) {
	valid := out.Valid
	a.value.gather(slots, out)
	out.Valid = batch.GrowBitmap(valid, len(slots))
	for i, s := range slots {
		out.Valid.SetTo(i, a.seq[s] != 0)
	}
}

func (a *pick) size(slot int32) int { return a.value.size(slot) }
