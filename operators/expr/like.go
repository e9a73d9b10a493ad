package expr

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"sluice/dataflow/batch"
)

// likePattern is a LIKE pattern made ready: the pieces of text between its % signs. The first piece
// stands at the start of what matches and the last one at its end; the others follow each other.
type likePattern struct {
	pieces []likePiece
}

// likePiece is text in which some characters may be any.
type likePiece struct {
	text []byte
	// gaps has an element for each character: whether it is any; nil if none is.
	gaps []bool
}

// compileLike reads a pattern; escape is -1 if there is no escape character.
func compileLike(pattern string, escape rune) (*likePattern, error) {
	p := &likePattern{}
	var piece likePiece
	var gaps []bool
	end := func() {
		for _, g := range gaps {
			if g {
				piece.gaps = gaps
			}
		}
		p.pieces = append(p.pieces, piece)
		piece, gaps = likePiece{}, nil
	}
	escaped := false
	for _, c := range pattern {
		switch {
		case escaped && c != '%' && c != '_' && c != escape:
			return nil, errors.New("the escape character of a LIKE pattern must stand before %, _ or itself")
		case !escaped && c == escape:
			escaped = true
			continue
		case !escaped && c == '%':
			end()
			continue
		}
		gaps = append(gaps, !escaped && c == '_')
		piece.text = utf8.AppendRune(piece.text, c)
		escaped = false
	}
	if escaped {
		return nil, errors.New("a LIKE pattern ends with its escape character")
	}
	end()
	return p, nil
}

// prefix returns the text with which all that matches starts, if that is all there is to the pattern.
func (p *likePattern) prefix() ([]byte, bool) {
	return p.pieces[0].text, len(p.pieces) == 2 && p.pieces[0].gaps == nil && len(p.pieces[1].text) == 0
}

// match reports whether the whole of s matches.
func (p *likePattern) match(s []byte) bool {
	n := p.pieces[0].at(s)
	if n < 0 {
		return false
	}
	s = s[n:]
	if len(p.pieces) == 1 {
		return len(s) == 0
	}
	last := len(p.pieces) - 1
	for i := 1; i < last; i++ {
		end := p.pieces[i].find(s)
		if end < 0 {
			return false
		}
		s = s[end:]
	}
	return p.pieces[last].ends(s)
}

// at returns the length of the piece at the start of s, -1 if it is not there.
func (p *likePiece) at(s []byte) int {
	if p.gaps == nil {
		if !bytes.HasPrefix(s, p.text) {
			return -1
		}
		return len(p.text)
	}
	n, text := 0, p.text
	for _, gap := range p.gaps {
		_, size := utf8.DecodeRune(text)
		if n == len(s) {
			return -1
		}
		if gap {
			_, any := utf8.DecodeRune(s[n:])
			n += any
		} else if bytes.HasPrefix(s[n:], text[:size]) {
			n += size
		} else {
			return -1
		}
		text = text[size:]
	}
	return n
}

// find returns where the first occurrence of the piece in s ends, -1 if there is none.
func (p *likePiece) find(s []byte) int {
	if p.gaps == nil {
		if i := bytes.Index(s, p.text); i >= 0 {
			return i + len(p.text)
		}
		return -1
	}
	for i := 0; ; {
		if n := p.at(s[i:]); n >= 0 {
			return i + n
		}
		if i == len(s) {
			return -1
		}
		_, size := utf8.DecodeRune(s[i:])
		i += size
	}
}

// ends reports whether the piece stands at the end of s.
func (p *likePiece) ends(s []byte) bool {
	if p.gaps == nil {
		return bytes.HasSuffix(s, p.text)
	}
	start := len(s)
	for range p.gaps {
		if start == 0 {
			return false
		}
		_, size := utf8.DecodeLastRune(s[:start])
		start -= size
	}
	return p.at(s[start:]) == len(s)-start
}

// like builds x LIKE pattern.
func (b *builder) like(t *typed) test {
	if t.pattern != nil {
		return &likeTest{x: b.value(t.args[0]), pattern: t.pattern, flip: truth(t.not)}
	}
	return &likeAny{result: newResult(t), x: b.value(t.args[0]), pattern: b.value(t.args[1]), escape: t.escape, flip: truth(t.not)}
}

// likeTest matches a constant pattern.
type likeTest struct {
	x       evaluator
	pattern *likePattern
	flip    int
}

func (t *likeTest) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x := t.x.eval(r, sel)
	dst = room(dst, count(r.n, sel))
	k := 0
	if prefix, ok := t.pattern.prefix(); ok {
		for j := range dst {
			i := rowAt(sel, j)
			from, to := x.Offsets[i], x.Offsets[i+1]
			dst[k] = i
			k += truth(int(to-from) >= len(prefix) && string(x.Data[from:int(from)+len(prefix)]) == string(prefix)) ^ t.flip
		}
		return dst[:k], x.Valid
	}
	for j := range dst {
		i := rowAt(sel, j)
		dst[k] = i
		k += truth(t.pattern.match(x.Bytes(int(i)))) ^ t.flip
	}
	return dst[:k], x.Valid
}

// likeAny matches patterns that come from the rows; it keeps the last one.
type likeAny struct {
	result     // only for its validity and errors
	x, pattern evaluator
	escape     rune
	flip       int
	last       string
	compiled   *likePattern
	err        error
}

func (t *likeAny) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x, pattern := t.x.eval(r, sel), t.pattern.eval(r, sel)
	t.reset(r.n)
	t.nullsOfBoth(x, pattern)
	dst = room(dst, count(r.n, sel))
	k := 0
	for j := range dst {
		i := rowAt(sel, j)
		if t.vec.IsNull(int(i)) {
			continue
		}
		t.compile(pattern.Bytes(int(i)))
		if t.err != nil {
			t.fail(r, i, t.err.Error())
			continue
		}
		dst[k] = i
		k += truth(t.compiled.match(x.Bytes(int(i)))) ^ t.flip
	}
	return dst[:k], t.vec.Valid
}

func (t *likeAny) compile(pattern []byte) {
	if (t.compiled != nil || t.err != nil) && t.last == string(pattern) {
		return
	}
	t.last = string(pattern)
	t.compiled, t.err = compileLike(t.last, t.escape)
}
