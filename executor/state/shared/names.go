package shared

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"sluice/executor/state/internal/format"
)

// longName is how many bytes of an escaped name become part of a file name; a longer one ends with a hash.
const longName = 150

// escape makes a file name of any name: letters, digits, - and _ stay, other bytes are %XX.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() <= longName {
		return b.String()
	}
	return fmt.Sprintf("%s~%x", b.String()[:longName], sha256.Sum256([]byte(name)))[:longName+1+16]
}

func checkName(what, name string) error {
	if name == "" || len(name) > format.MaxName {
		return assertion("%s has a name of %d bytes, not 1 to %d", what, len(name), format.MaxName)
	}
	return nil
}

// opening names one opening of a log: a later one, of the same generation or of a higher one, seals it.
type opening struct{ gen, n int64 }

func (o opening) below(p opening) bool {
	return o.gen < p.gen || o.gen == p.gen && o.n < p.n
}

func (o opening) String() string { return number(o.gen) + "." + number(o.n) }

// number writes a number so that names have the order of their numbers.
func number(n int64) string { return fmt.Sprintf("%019d", n) }

// parseNumber is the reverse of number.
func parseNumber(s string) (int64, bool) {
	if len(s) != 19 || s[0] == '-' || s[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parseNumbers takes a file name apart, which must be numbers with dots between them and a suffix.
func parseNumbers(name, suffix string, to ...*int64) bool {
	name, ok := strings.CutSuffix(name, suffix)
	parts := strings.Split(name, ".")
	if !ok || len(parts) != len(to) {
		return false
	}
	for i, p := range parts {
		if *to[i], ok = parseNumber(p); !ok {
			return false
		}
	}
	return true
}

// snapshot is what the name of a snapshot says.
type snapshot struct {
	key         string // escaped
	lo, hi, gen int64
	n           int64 // tells apart those that are the same otherwise
}

const snapshotsDir = "snapshots"

// ref is the name of the snapshot's file from the root of the directory.
func (s snapshot) ref() string {
	return snapshotsDir + "/" + strings.Join([]string{s.key, number(s.lo), number(s.hi), number(s.gen), number(s.n)}, ".")
}

// parseRef is the reverse of ref. Names that are not made by it are refused, so that none leads elsewhere.
func parseRef(ref string) (snapshot, bool) {
	name, _ := strings.CutPrefix(ref, snapshotsDir+"/")
	key, rest, _ := strings.Cut(name, ".")
	s := snapshot{key: key}
	ok := parseNumbers(rest, "", &s.lo, &s.hi, &s.gen, &s.n)
	return s, ok && escapedOnly(key) && s.ref() == ref
}

func escapedOnly(key string) bool {
	return key != "" && len(key) <= longName+1+16 && !strings.ContainsFunc(key, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_%~", c)
	})
}
