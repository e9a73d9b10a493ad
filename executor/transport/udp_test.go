package transport

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// datagrams are the fragments of a message, as they are read.
func datagrams(t *testing.T, seq uint64, msg []byte) []fragment {
	t.Helper()
	var fs []fragment
	for i := range fragments(len(msg)) {
		_, number, rest, ok := parseUDPHead(appendFragment(nil, 9, seq, msg, i))
		f, ok2 := parseFragment(rest)
		if !ok || !ok2 || number != 9 {
			t.Fatalf("fragment %d of %d bytes is not read again", i, len(msg))
		}
		fs = append(fs, f)
	}
	return fs
}

func TestAssembly(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 500)
	var a assembly
	feed := func(fs ...fragment) (got []uint64, lost uint64) {
		for _, f := range fs {
			seq := f.seq
			msg, whole, l := a.add(f, MaxDatagrams)
			lost += l
			if !whole {
				continue
			}
			if len(msg) != f.size || len(msg) == len(long) && !bytes.Equal(msg, long) {
				t.Fatalf("message %d is not whole", seq)
			}
			got = append(got, seq)
		}
		return got, lost
	}
	expect := func(what string, want []uint64, wantLost uint64, fs ...fragment) {
		t.Helper()
		if got, lost := feed(fs...); !slices.Equal(got, want) || lost != wantLost {
			t.Errorf("%s: got %v and %d lost, want %v and %d", what, got, lost, want, wantLost)
		}
	}
	at := func(seq uint64, msg []byte) []fragment { return datagrams(t, seq, msg) }
	five := at(5, long)
	expect("what was before the first is not lost", []uint64{5}, 0, five...)
	expect("duplicates", nil, 0, five...)
	six := at(6, long)
	slices.Reverse(six)
	expect("fragments in any order, and twice", []uint64{6}, 0, slices.Concat(six[:2], six)...)
	expect("a gap", []uint64{9}, 2, at(9, nil)...)
	expect("what comes after a later one", nil, 0, at(8, nil)...)
	expect("a fragment is lost", []uint64{11}, 1, slices.Concat(at(10, long)[1:], at(11, []byte("x")))...)
	damaged := at(12, long)
	damaged[1].size--
	expect("fragments that contradict", nil, 0, damaged...)
	expect("the message after them", []uint64{13}, 1, at(13, long)...)
	if _, whole, _ := a.add(at(14, long)[0], 10); whole || a.msg != nil {
		t.Error("a message took more room than there is")
	}
}

// TestFragmentNoise: any bytes are refused or make a fragment that add can take.
func TestFragmentNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var a assembly
	taken := 0
	for range 200000 {
		b := make([]byte, r.IntN(60))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if len(b) >= 16 { // numbers that have a chance
			binary.BigEndian.PutUint64(b, uint64(r.IntN(50)))
			binary.BigEndian.PutUint16(b[8:], uint16(r.IntN(3)))
			binary.BigEndian.PutUint16(b[10:], uint16(r.IntN(3)))
			binary.BigEndian.PutUint32(b[12:], uint32(r.IntN(1500)))
		}
		f, ok := parseFragment(b)
		if !ok {
			continue
		}
		taken++
		if msg, whole, _ := a.add(f, MaxDatagrams); whole && len(msg) > MaxDatagrams {
			t.Fatal("a message is larger than may be")
		}
	}
	if taken == 0 {
		t.Error("no noise was a fragment: the test does not reach add")
	}
}
