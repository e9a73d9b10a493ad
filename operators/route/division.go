package route

import "sluice/operators/expr"

// division divides the rows of a batch among outputs.
type division struct {
	sels   [][]int32 // by output; parts of rows
	rows   []int32
	owners []int32 // by selected row
	ends   []int   // by output
	// memo is which output each small key goes to; unknown until it is first looked for. Finding that costs more than
	// all else that is done for a row.
	memo  *[smallKeys]uint8
	small bool // so were all keys of the last batch
}

// smallKeys is how many keys, from 0 on, are small.
const smallKeys = 1 << 16

// unknown is no output of mostRemembered.
const (
	unknown        uint8 = 1 << 7
	mostRemembered       = 1 << 7
)

// forget is called when routes have changed.
func (d *division) forget() { d.memo = nil }

// divide lists for each output, in order, those rows of sel (nil: all) that are its own. hashes has all rows. The lists
// are valid until the next call.
func (d *division) divide(owner *routes, hashes []int64, sel []int32) [][]int32 {
	n := len(hashes)
	if sel != nil {
		n = len(sel)
	}
	if len(d.sels) == 2 {
		return d.halve(owner, hashes, sel, n)
	}
	return d.spread(owner, hashes, sel, n)
}

// halve is divide for two outputs, without a branch for a row.
func (d *division) halve(owner *routes, hashes []int64, sel []int32, n int) [][]int32 {
	d.rows = room(d.rows, 2*n)
	first, second := d.rows[:n], d.rows[n:2*n]
	k := 0 // of the second
	if sel == nil {
		for i, h := range hashes {
			first[i-k], second[k] = int32(i), int32(i)
			k += int(owner[expr.KeyGroup(h)])
		}
	}
	for j, i := range sel {
		first[j-k], second[k] = i, i
		k += int(owner[expr.KeyGroup(hashes[i])])
	}
	d.sels[0], d.sels[1] = first[:n-k], second[:k]
	return d.sels
}

// divideWords is divide for all rows of a key that is one number, which it hashes on the way.
func (d *division) divideWords(owner *routes, vals []int64, kind byte) [][]int32 {
	if len(d.sels) == 2 && d.small && d.memo != nil && d.halveSmall(vals) {
		return d.sels
	}
	known := d.learn(owner, vals, kind)
	if len(d.sels) == 2 {
		if !known || !d.halveSmall(vals) {
			d.halveWords(owner, vals, kind)
		}
		return d.sels
	}
	d.owners = room(d.owners, len(vals))
	if known {
		for i, v := range vals {
			d.owners[i] = int32(d.memo[uint16(v)])
		}
	} else {
		for i, v := range vals {
			d.owners[i] = owner[expr.KeyGroup(expr.HashWord(uint64(v), kind))]
		}
	}
	return d.place(nil)
}

// halveSmall is divideWords for two outputs, if memo has all keys; else it returns false.
func (d *division) halveSmall(vals []int64) bool {
	n := len(vals)
	d.rows = room(d.rows, 2*n)
	first, second, memo := d.rows[:n], d.rows[n:2*n], d.memo
	k, all, seen := 0, uint64(0), uint8(0)
	for i, v := range vals {
		first[i-k], second[k] = int32(i), int32(i)
		to := memo[uint16(v)]
		all, seen = all|uint64(v), seen|to
		k += int(to & 1)
	}
	d.sels[0], d.sels[1] = first[:n-k], second[:k]
	return all < smallKeys && seen&unknown == 0
}

// halveWords is divideWords for two outputs and any keys.
func (d *division) halveWords(owner *routes, vals []int64, kind byte) {
	n := len(vals)
	d.rows = room(d.rows, 2*n)
	first, second := d.rows[:n], d.rows[n:2*n]
	k := 0
	for i, v := range vals {
		first[i-k], second[k] = int32(i), int32(i)
		k += int(owner[expr.KeyGroup(expr.HashWord(uint64(v), kind))])
	}
	d.sels[0], d.sels[1] = first[:n-k], second[:k]
}

// learn completes memo, if all keys are small.
func (d *division) learn(owner *routes, vals []int64, kind byte) bool {
	all := uint64(0)
	for _, v := range vals {
		all |= uint64(v)
	}
	if d.small = all < smallKeys && len(d.sels) <= mostRemembered; !d.small {
		return false
	}
	if d.memo == nil {
		d.memo = &[smallKeys]uint8{}
		for i := range d.memo {
			d.memo[i] = unknown
		}
	}
	missing := uint8(0)
	for _, v := range vals {
		missing |= d.memo[uint16(v)]
	}
	if missing&unknown == 0 {
		return true
	}
	for _, v := range vals {
		if m := &d.memo[uint16(v)]; *m == unknown {
			*m = uint8(owner[expr.KeyGroup(expr.HashWord(uint64(v), kind))])
		}
	}
	return true
}

// spread is divide for any number of outputs.
func (d *division) spread(owner *routes, hashes []int64, sel []int32, n int) [][]int32 {
	d.owners = room(d.owners, n)
	if sel == nil {
		for i, h := range hashes {
			d.owners[i] = owner[expr.KeyGroup(h)]
		}
	}
	for j, i := range sel {
		d.owners[j] = owner[expr.KeyGroup(hashes[i])]
	}
	return d.place(sel)
}

// place lists the rows of sel (nil: all), whose outputs owners has: it counts the rows of each output, and puts them in
// their places.
func (d *division) place(sel []int32) [][]int32 {
	d.rows, d.ends = room(d.rows, len(d.owners)), room(d.ends, len(d.sels))
	clear(d.ends)
	for _, o := range d.owners {
		d.ends[o]++
	}
	at := 0
	for o, size := range d.ends {
		d.sels[o] = d.rows[at : at+size]
		d.ends[o], at = at, at+size
	}
	for j, o := range d.owners {
		i := int32(j)
		if sel != nil {
			i = sel[j]
		}
		d.rows[d.ends[o]] = i
		d.ends[o]++
	}
	return d.sels
}

// room returns s with length n; its contents are undefined.
func room[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
