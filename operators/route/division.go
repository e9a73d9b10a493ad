package route

import "sluice/operators/expr"

// division divides the rows of a batch among outputs.
type division struct {
	sels   [][]int32 // by output; parts of rows
	rows   []int32
	owners []int32 // by selected row
	ends   []int   // by output
}

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

// halveWords is halve for all rows of a key that is one number, which it hashes on the way.
func (d *division) halveWords(owner *routes, vals []int64, kind byte) [][]int32 {
	n := len(vals)
	d.rows = room(d.rows, 2*n)
	first, second := d.rows[:n], d.rows[n:2*n]
	k := 0
	for i, v := range vals {
		first[i-k], second[k] = int32(i), int32(i)
		k += int(owner[expr.KeyGroup(expr.HashWord(uint64(v), kind))])
	}
	d.sels[0], d.sels[1] = first[:n-k], second[:k]
	return d.sels
}

// spread is divide for any number of outputs: it counts the rows of each, and puts them in their places.
func (d *division) spread(owner *routes, hashes []int64, sel []int32, n int) [][]int32 {
	d.rows, d.owners, d.ends = room(d.rows, n), room(d.owners, n), room(d.ends, len(d.sels))
	clear(d.ends)
	for j := range d.owners {
		i := j
		if sel != nil {
			i = int(sel[j])
		}
		o := owner[expr.KeyGroup(hashes[i])]
		d.owners[j] = o
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
