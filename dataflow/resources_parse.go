package dataflow

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode"
)

// What one operator may need at most.
const (
	MaxCPUs  = 100_000
	MaxBytes = 1 << 50 // of memory, and of disk
	MaxGPUs  = 1_000
	MaxPorts = 1_000
	// MaxAttributes is how many attributes of the machine it may name.
	MaxAttributes = 64
)

// ParseCPUs reads a number of cores, which may be a decimal number. It is rounded up to thousandths, in which
// clusters count.
func ParseCPUs(text string) (float64, error) {
	r, err := parseAmount(text, text, "a number of cores such as 2 or 0.5")
	if err != nil {
		return 0, err
	}
	n := roundUp(r.Mul(r, big.NewRat(1000, 1)))
	if n.Cmp(big.NewInt(MaxCPUs*1000)) > 0 {
		return 0, fmt.Errorf("%s cores are too many; at most %d can be asked for", shortNumber(text), MaxCPUs)
	}
	return float64(n.Int64()) / 1000, nil
}

// byteUnits are the units of a size, the longest names first.
var byteUnits = []struct {
	name  string
	bytes int64
}{{"KB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30}, {"TB", 1 << 40}, {"B", 1}}

// ParseByteSize reads an amount of bytes such as 512MB or 1.5GB: a whole or decimal number with one of the units
// B, KB, MB, GB and TB, each 1024 times the one before. It is rounded up to whole bytes.
func ParseByteSize(text string) (int64, error) {
	const like = "a size such as 512MB or 1.5GB"
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		r, err := parseAmount(strings.TrimRight(number, " "), text, like)
		if err != nil {
			return 0, err
		}
		n := roundUp(r.Mul(r, new(big.Rat).SetInt64(u.bytes)))
		if n.Cmp(big.NewInt(MaxBytes)) > 0 {
			return 0, fmt.Errorf("%s is too much; at most %s can be asked for", shortNumber(text), ByteSize(MaxBytes))
		}
		return n.Int64(), nil
	}
	if _, err := parseAmount(text, text, like); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%s needs a unit: B, KB, MB, GB or TB", shortNumber(text))
}

// ParseCount reads a whole number up to most of what is named.
func ParseCount(text, what string, most int) (int, error) {
	r, err := parseAmount(text, text, "a number of "+what+" such as 1")
	switch {
	case err != nil:
		return 0, err
	case !r.IsInt():
		return 0, fmt.Errorf("%s is no whole number of %s", shortNumber(text), what)
	case r.Cmp(big.NewRat(int64(most), 1)) > 0:
		return 0, fmt.Errorf("%s %s are too many; at most %d can be asked for", shortNumber(text), what, most)
	}
	return int(r.Num().Int64()), nil
}

// parseAmount reads digits with at most one point among them, which are part of a text. The bound on their number
// keeps the work small.
func parseAmount(number, text, like string) (*big.Rat, error) {
	number, negative := strings.CutPrefix(number, "-")
	whole, part, _ := strings.Cut(number, ".")
	digits := whole + part
	if digits == "" || len(digits) > 40 || strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return nil, fmt.Errorf("%s is not %s", quote(text), like)
	}
	if negative {
		return nil, fmt.Errorf("%s is negative; write %s", shortNumber(text), like)
	}
	r, ok := new(big.Rat).SetString("0" + number)
	if !ok {
		return nil, fmt.Errorf("%s is not %s", quote(text), like)
	}
	return r, nil
}

// roundUp is the least whole number not below r.
func roundUp(r *big.Rat) *big.Int {
	n, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	return n
}

// shortNumber is the text of a number, which may have spaces before its unit.
func shortNumber(text string) string { return strings.Join(strings.Fields(text), "") }

// AttributeError says what is wrong with a list of attributes, and at which byte.
type AttributeError struct {
	Offset  int
	Message string
}

// Error implements error.
func (e *AttributeError) Error() string { return e.Message }

// ParseAttributes reads a list such as "rack=r1, disk=ssd". The errors are AttributeErrors, all that there are.
func ParseAttributes(text string) (list []Attribute, errs []*AttributeError) {
	offset := 0
	for part := range strings.SplitSeq(text, ",") {
		begin := offset + len(part) - len(strings.TrimLeft(part, " "))
		offset += len(part) + 1
		name, value, ok := strings.Cut(part, "=")
		a := Attribute{strings.TrimSpace(name), strings.TrimSpace(value)}
		i, found := slices.BinarySearchFunc(list, a.Name, func(b Attribute, name string) int { return cmp.Compare(b.Name, name) })
		switch {
		case !ok || a.Name == "" || a.Value == "" || strings.ContainsFunc(part, unicode.IsControl):
			errs = append(errs, &AttributeError{begin, fmt.Sprintf("%s is not an attribute such as rack=r1", quote(strings.TrimSpace(part)))})
		case len(list) == MaxAttributes && !found:
			return list, append(errs, &AttributeError{begin, fmt.Sprintf("there are more than %d attributes", MaxAttributes)})
		case found:
			errs = append(errs, &AttributeError{begin, fmt.Sprintf("attribute %s is there twice; a machine has one value of it", quote(a.Name))})
		default:
			list = slices.Insert(list, i, a)
		}
	}
	return list, errs
}
