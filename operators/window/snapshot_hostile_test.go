package window

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"

	"sluice/operators"
)

// hostileNumbers are what a count or a length may be made to say.
var hostileNumbers = []uint64{1, 63, 1 << 10, 1 << 16, 1<<31 - 1, 1 << 40, 1<<62 + 1, 1<<64 - 1}

// hostileBytes is how much memory one byte of a piece may take, and hostileBase how much any piece may: an operator
// begins with some memory, and each group has a place in several arrays and tables.
const (
	hostileBytes = 64
	hostileBase  = 1 << 20
)

// TestHostileCounts puts large numbers in each place of pieces, as a varint and as a word. Whatever is read as
// a count or a length then, restoring takes memory in proportion to the piece, and ends soon.
func TestHostileCounts(t *testing.T) {
	for _, r := range examples(t) {
		window := r.ctx.Op.Value("window")
		head := len(r.op.(*aggregate).frozen(nil).head)
		pieces := r.pieces()
		for _, p := range slices.Concat(pieces[:2], pieces[max(2, len(pieces)-1):]) {
			body := p.data[:len(p.data)-8]
			for at := head; at < len(body); at += 1 + (at-head)/12 {
				for _, n := range hostileNumbers {
					for _, number := range [][]byte{binary.AppendUvarint(nil, n), binary.LittleEndian.AppendUint64(nil, n)} {
						inserted := slices.Concat(body[:at], number, body[min(at+1, len(body)):], make([]byte, 8))
						r.restoresWithin(t, window, storedPiece{p.group, inserted})
					}
				}
			}
		}
	}
}

// TestZerosAreNoState has pieces of nothing but zeros behind the frame, or of one byte many times.
func TestZerosAreNoState(t *testing.T) {
	for _, r := range examples(t) {
		head := r.op.(*aggregate).frozen(nil).head
		for _, part := range []byte{partEntries, partWaiting} {
			for _, b := range []byte{0, 1, 2, 0x7f, 0x80, 0xff} {
				data := slices.Concat(head, []byte{part}, bytes.Repeat([]byte{b}, 1<<16), make([]byte, 8))
				for _, group := range []int{operators.WholeState, 0} {
					r.restoresWithin(t, r.ctx.Op.Value("window"), storedPiece{group, data})
				}
			}
		}
	}
}

// restoresWithin restores a piece that may be anything, and goes on if that is possible.
func (r *rig) restoresWithin(t *testing.T, window string, p storedPiece) {
	t.Helper()
	p.seal()
	next := r.fresh()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	err := next.restore(p)
	if err == nil {
		next.goOn()
	}
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	if used, most := after.TotalAlloc-before.TotalAlloc, uint64(hostileBase+hostileBytes*len(p.data)); used > most {
		t.Fatalf("%s: a piece of %d bytes takes %d bytes of memory, more than %d; error %v", window, len(p.data), used, most, err)
	}
	if took > 5*time.Second {
		t.Fatalf("%s: a piece of %d bytes takes %v; error %v", window, len(p.data), took, err)
	}
}
