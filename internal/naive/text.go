package naive

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// cast converts v, which is not NULL, between types.
func cast(v Value, from, to Type) (Value, error) {
	switch {
	case from == to:
		return v, nil
	case to.Kind == String:
		s, err := format(v, from)
		return text(s), err
	case from.Kind == String:
		return parse(v.Text, to)
	}
	switch to.Kind {
	case Bool:
		return boolean(v.Int != 0), nil
	case Int:
		return castInt(v, from)
	case Float:
		return float(asFloat(v, from))
	case Decimal:
		if from.Kind == Float {
			return decimal(shortest(v.Float), to)
		}
		return decimal(asRat(v, from), to)
	}
	return fail("no cast from %s to %s", from, to)
}

// castInt rounds to the nearest int, halves away from zero.
func castInt(v Value, from Type) (Value, error) {
	switch from.Kind {
	case Bool:
		return Value{Int: int64(truth(v.Bool))}, nil
	case Float:
		return integer(roundHalfAway(new(big.Rat).SetFloat64(v.Float)))
	}
	return integer(roundHalfAway(asRat(v, from)))
}

// shortest is the value of the shortest decimal number that reads back as f.
func shortest(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
	return r
}

// format is the text form of a value.
func format(v Value, t Type) (string, error) {
	switch t.Kind {
	case Bool:
		return strconv.FormatBool(v.Bool), nil
	case Int:
		return strconv.FormatInt(v.Int, 10), nil
	case Float:
		return formatFloat(v.Float), nil
	case Decimal:
		s := plainDecimal(v.Dec, t.Scale)
		if t.Scale > 0 {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s, nil
	case Bytes:
		return base64.StdEncoding.EncodeToString([]byte(v.Text)), nil
	case Timestamp:
		return formatTimestamp(v.Int), nil
	case Duration:
		return formatDuration(v.Int), nil
	}
	return v.Text, nil
}

// formatFloat is the shortest form that reads back, in plain digits from 1e-7 to 1e21.
func formatFloat(f float64) string {
	if a := math.Abs(f); a == 0 || a >= 1e-7 && a < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	return regexp.MustCompile(`e([+-])0`).ReplaceAllString(s, "e$1")
}

// plainDecimal has all digits of the scale.
func plainDecimal(d *big.Int, scale int) string {
	s := fmt.Sprintf("%0*d", scale+1, new(big.Int).Abs(d))
	if scale > 0 {
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if d.Sign() < 0 {
		s = "-" + s
	}
	return s
}

func formatTimestamp(us int64) string {
	t := time.UnixMicro(us).UTC()
	year := fmt.Sprintf("%04d", t.Year())
	if t.Year() < 0 {
		year = fmt.Sprintf("-%04d", -t.Year())
	}
	s := fmt.Sprintf("%s-%02d-%02dT%02d:%02d:%02d", year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second())
	if t.Nanosecond() > 0 {
		s += strings.TrimRight(fmt.Sprintf(".%06d", t.Nanosecond()/1000), "0")
	}
	return s + "Z"
}

func formatDuration(us int64) string {
	if us == 0 {
		return "0s"
	}
	s, rest := "", new(big.Int).Abs(big.NewInt(us)).Uint64()
	if us < 0 {
		s = "-"
	}
	if h := rest / 3600e6; h > 0 {
		s += fmt.Sprintf("%dh", h)
	}
	if m := rest / 60e6 % 60; m > 0 {
		s += fmt.Sprintf("%dm", m)
	}
	if sec := rest % 60e6; sec > 0 {
		s += strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%06d", sec/1e6, sec%1e6), "0"), ".") + "s"
	}
	return s
}

var (
	intForm      = regexp.MustCompile(`^[+-]?[0-9]+$`)
	numberForm   = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE]([+-]?[0-9]+))?$`)
	dateForm     = regexp.MustCompile(`^([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?)?$`)
	durationForm = regexp.MustCompile(`^(-?)(?:(N)d)?(?:(N)h)?(?:(N)m)?(?:(N)s)?(?:(N)ms)?(?:(N)us)?$`)
)

func init() {
	form := strings.ReplaceAll(durationForm.String(), "N", `[0-9]+(?:\.[0-9]+)?`)
	durationForm = regexp.MustCompile(form)
}

// parse reads the text form of a value of type t.
func parse(s string, t Type) (Value, error) {
	switch t.Kind {
	case Bool:
		switch strings.ToLower(s) {
		case "true", "t", "1":
			return boolean(true), nil
		case "false", "f", "0":
			return boolean(false), nil
		}
	case Int:
		if v, ok := new(big.Int).SetString(s, 10); ok && intForm.MatchString(s) {
			return integer(v)
		}
	case Float:
		if numberForm.MatchString(s) {
			f, _ := strconv.ParseFloat(s, 64)
			return float(f)
		}
	case Decimal:
		return parseDecimal(s, t)
	case Bytes:
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		if err == nil && !strings.ContainsAny(s, "\r\n") {
			return text(string(b)), nil
		}
	case Timestamp:
		return parseTimestamp(s)
	case Duration:
		return parseDuration(s)
	}
	return fail("%q is not a %s", s, t)
}

// parseDecimal never rounds.
func parseDecimal(s string, t Type) (Value, error) {
	m := numberForm.FindStringSubmatch(s)
	if m == nil {
		return fail("%q is not a decimal", s)
	}
	mantissa, _ := new(big.Rat).SetString(strings.TrimSuffix(strings.TrimPrefix(m[0], "+"), m[2]))
	if mantissa.Sign() == 0 {
		return Value{Dec: new(big.Int)}, nil
	}
	exponent, err := strconv.Atoi(m[3])
	if m[3] != "" && (err != nil || exponent > 1000 || exponent < -1000) {
		return fail("%q is out of range for %s", s, t)
	}
	if exponent >= 0 {
		mantissa.Mul(mantissa, new(big.Rat).SetInt(pow10(exponent)))
	} else {
		mantissa.Quo(mantissa, new(big.Rat).SetInt(pow10(-exponent)))
	}
	v, err := decimal(mantissa, t)
	if err == nil && asRat(v, t).Cmp(mantissa) != 0 {
		return fail("%q has more digits than %s", s, t)
	}
	return v, err
}

// parseTimestamp reads RFC 3339 and what is like it, or milliseconds. Years are 1 to 9999.
func parseTimestamp(s string) (Value, error) {
	var us *big.Int
	if ms, ok := new(big.Int).SetString(s, 10); ok && intForm.MatchString(s) {
		us = ms.Mul(ms, big.NewInt(1000))
	} else {
		m := dateForm.FindStringSubmatch(s)
		if m == nil {
			return fail("%q is not a timestamp", s)
		}
		n := make([]int, len(m))
		for i := 1; i <= 6; i++ {
			n[i], _ = strconv.Atoi(m[i])
		}
		t := time.Date(n[1], time.Month(n[2]), n[3], n[4], n[5], n[6], 0, time.UTC)
		if int(t.Month()) != n[2] || t.Day() != n[3] || n[4] > 23 || n[5] > 59 || n[6] > 59 {
			return fail("%q is not a timestamp", s)
		}
		fraction := strings.TrimRight(m[7], "0")
		if len(fraction) > 6 {
			return fail("%q is finer than a microsecond", s)
		}
		micros, _ := strconv.Atoi((fraction + "000000")[:6])
		us = big.NewInt(t.UnixMicro() + int64(micros))
		if len(m[8]) > 1 {
			hours, _ := strconv.Atoi(m[8][1:3])
			minutes, _ := strconv.Atoi(m[8][4:])
			if hours > 23 || minutes > 59 {
				return fail("%q is not a timestamp", s)
			}
			offset := int64(hours*60+minutes) * 60e6
			if m[8][0] == '+' {
				offset = -offset
			}
			us.Add(us, big.NewInt(offset))
		}
	}
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	if us.Cmp(big.NewInt(first)) < 0 || us.Cmp(big.NewInt(last)) >= 0 {
		return fail("%q is out of range for a timestamp", s)
	}
	return Value{Int: us.Int64()}, nil
}

// parseDuration reads units from large to small, each at most once.
func parseDuration(s string) (Value, error) {
	m := durationForm.FindStringSubmatch(s)
	if m == nil || s == "" || s == "-" {
		return fail("%q is not a duration", s)
	}
	total := new(big.Rat)
	for i, micros := range []int64{86400e6, 3600e6, 60e6, 1e6, 1e3, 1} {
		if m[i+2] == "" {
			continue
		}
		part, _ := new(big.Rat).SetString(m[i+2])
		part.Mul(part, new(big.Rat).SetInt64(micros))
		if !part.IsInt() {
			return fail("%q is finer than a microsecond", s)
		}
		total.Add(total, part)
	}
	if m[1] == "-" {
		total.Neg(total)
	}
	return integer(total.Num())
}
