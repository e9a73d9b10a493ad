package value

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// TimestampFormat reads and writes timestamps in a notation of strftime. It may be used by several
// goroutines at once.
type TimestampFormat struct {
	ops    []formatOp
	format string
}

// formatOp is a directive, named by its letter, or with letter 0 a literal text.
type formatOp struct {
	letter  byte
	literal string
}

// composites are the directives that stand for several.
var composites = map[byte]string{'F': "%Y-%m-%d", 'T': "%H:%M:%S", 'R': "%H:%M", 'D': "%m/%d/%y"}

// CompileTimestampFormat compiles a format. It fails for a directive that is not known and for a format
// that does not name a year, and so no time.
func CompileTimestampFormat(format string) (*TimestampFormat, error) {
	f := &TimestampFormat{format: format}
	if err := f.compile(format); err != nil {
		return nil, err
	}
	for _, op := range f.ops {
		if strings.IndexByte("Yys", op.letter) >= 0 {
			return f, nil
		}
	}
	return nil, fmt.Errorf("timestamp format %q has no year (%%Y, %%y, %%F, %%D or %%s)", format)
}

// String returns the format as it was given.
func (f *TimestampFormat) String() string { return f.format }

func (f *TimestampFormat) compile(format string) error {
	for format != "" {
		n := strings.IndexByte(format, '%')
		if n < 0 {
			n = len(format)
		}
		f.addLiteral(format[:n])
		if format = format[n:]; format == "" {
			return nil
		}
		if len(format) == 1 {
			return fmt.Errorf("timestamp format ends in a lone %%")
		}
		letter := format[1]
		switch {
		case composites[letter] != "":
			if err := f.compile(composites[letter]); err != nil {
				return err
			}
		case letter == '%':
			f.addLiteral("%")
		case strings.IndexByte("YmdHMSfyjbBaApIzZse", letter) >= 0:
			f.ops = append(f.ops, formatOp{letter: letter})
		default:
			_, size := utf8.DecodeRuneInString(format[1:])
			return fmt.Errorf("unknown directive %q in timestamp format", format[:1+size])
		}
		format = format[2:]
	}
	return nil
}

func (f *TimestampFormat) addLiteral(text string) {
	if text == "" {
		return
	}
	if n := len(f.ops); n > 0 && f.ops[n-1].letter == 0 {
		f.ops[n-1].literal += text
		return
	}
	f.ops = append(f.ops, formatOp{literal: text})
}

var (
	monthNames = [...]string{"", "January", "February", "March", "April", "May", "June", "July", "August",
		"September", "October", "November", "December"}
	dayNames = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

// fields is what the directives of a format have told about a time.
type fields struct {
	year, month, day, yearDay   int64
	hour, hour12, half          int64 // half is 1 for AM, 2 for PM, 0 if not told
	minute, second, micros, off int64 // off in microseconds
	epoch                       int64
	hasEpoch                    bool
}

// Parse reads a text that has the format.
func (f *TimestampFormat) Parse(text []byte) (int64, error) {
	t := fields{month: 1, day: 1, hour12: -1}
	s := text
	for i := range f.ops {
		n, err := t.read(&f.ops[i], s)
		if err != nil {
			return 0, err
		}
		s = s[n:]
	}
	if len(s) > 0 {
		return 0, ErrTimestamp
	}
	return t.timestamp()
}

// read reads the directive op at the start of s and returns how much of s it took.
func (t *fields) read(op *formatOp, s []byte) (int, error) {
	n := 0
	switch op.letter {
	case 0:
		if n = len(op.literal); len(s) < n || string(s[:n]) != op.literal {
			return 0, ErrTimestamp
		}
	case 'Y':
		t.year, n = readNumber(s, 4, 9999)
	case 'm':
		t.month, n = readNumber(s, 2, 12)
	case 'd':
		t.day, n = readNumber(s, 2, 31)
	case 'e':
		pad := 0
		if len(s) > 0 && s[0] == ' ' {
			pad = 1
		}
		if t.day, n = readNumber(s[pad:], 2-pad, 31); n > 0 {
			n += pad
		}
	case 'H':
		t.hour, n = readNumber(s, 2, 23)
	case 'I':
		if t.hour12, n = readNumber(s, 2, 12); t.hour12 == 0 {
			n = 0
		}
	case 'M':
		t.minute, n = readNumber(s, 2, 59)
	case 'S':
		t.second, n = readNumber(s, 2, 59)
	case 'f':
		var err error
		if t.micros, n, err = parseFraction(s); err != nil {
			return 0, err
		}
	case 'y':
		if t.year, n = readNumber(s, 2, 99); t.year >= 69 {
			t.year += 1900
		} else {
			t.year += 2000
		}
	case 'j':
		if t.yearDay, n = readNumber(s, 3, 366); t.yearDay == 0 {
			n = 0
		}
	case 'b':
		t.month, n = readName(s, monthNames[:], 3)
	case 'B':
		t.month, n = readName(s, monthNames[:], 0)
	case 'a':
		_, n = readName(s, dayNames[:], 3)
	case 'A':
		_, n = readName(s, dayNames[:], 0)
	case 'p':
		if len(s) >= 2 && s[1]|0x20 == 'm' {
			switch s[0] | 0x20 {
			case 'a':
				t.half, n = 1, 2
			case 'p':
				t.half, n = 2, 2
			}
		}
	case 'z':
		t.off, n = readOffset(s)
	case 'Z':
		n = readZone(s)
	case 's':
		t.epoch, n = readEpoch(s)
		t.hasEpoch = true
	}
	if n == 0 && op.letter != 0 {
		return 0, ErrTimestamp
	}
	return n, nil
}

// readNumber reads up to digits digits; it takes nothing if there is none or the number is above limit.
func readNumber(s []byte, digits int, limit int64) (v int64, n int) {
	for n < len(s) && n < digits && s[n]-'0' <= 9 {
		v = v*10 + int64(s[n]-'0')
		n++
	}
	if v > limit {
		return 0, 0
	}
	return v, n
}

// readName reads one of the names, or its first size characters if size is not 0, in either case, and
// returns its index.
func readName(s []byte, names []string, size int) (index int64, n int) {
	for i, name := range names {
		if size > 0 && len(name) > size {
			name = name[:size]
		}
		if name == "" || len(s) < len(name) {
			continue
		}
		same := true
		for k := range len(name) {
			same = same && s[k]|0x20 == name[k]|0x20
		}
		if same {
			return int64(i), len(name)
		}
	}
	return 0, 0
}

// readOffset reads +hh:mm, +hhmm, the same with a minus sign, or Z.
func readOffset(s []byte) (micros int64, n int) {
	if len(s) >= 1 && s[0]|0x20 == 'z' {
		return 0, 1
	}
	if len(s) >= 6 && s[3] == ':' {
		if v, ok := parseOffset(s[:6]); ok {
			return v, 6
		}
	}
	if len(s) >= 5 {
		withColon := [6]byte{s[0], s[1], s[2], ':', s[3], s[4]}
		if v, ok := parseOffset(withColon[:]); ok {
			return v, 5
		}
	}
	return 0, 0
}

func readZone(s []byte) int {
	for _, name := range [...]string{"UTC", "GMT", "Z"} {
		if len(s) >= len(name) && string(s[:len(name)]) == name {
			return len(name)
		}
	}
	return 0
}

// readEpoch reads seconds with an optional minus sign; those of the year 9999 have 12 digits.
func readEpoch(s []byte) (seconds int64, n int) {
	neg := len(s) > 0 && s[0] == '-'
	if neg {
		s = s[1:]
	}
	seconds, n = readNumber(s, 12, 1e12)
	if neg && n > 0 {
		return -seconds, n + 1
	}
	return seconds, n
}

// timestamp puts the fields together.
func (t *fields) timestamp() (int64, error) {
	if t.hasEpoch {
		return inRange(t.epoch*microsPerSecond + t.micros)
	}
	if t.hour12 >= 0 {
		t.hour = t.hour12 % 12
	}
	if t.half == 2 && t.hour < 12 {
		t.hour += 12
	} else if t.half == 1 && t.hour >= 12 {
		return 0, ErrTimestamp
	}
	if t.yearDay > 0 {
		if t.yearDay == 366 && !leapYear(t.year) {
			return 0, ErrTimestamp
		}
		t.month, t.day = 1, 1
	}
	if !validDate(t.year, t.month, t.day) {
		return 0, ErrTimestamp
	}
	days := daysFromCivil(t.year, t.month, t.day)
	if t.yearDay > 0 {
		days += t.yearDay - 1
	}
	seconds := t.hour*3600 + t.minute*60 + t.second
	return inRange(days*microsPerDay + seconds*microsPerSecond + t.micros - t.off)
}

func inRange(v int64) (int64, error) {
	if v < minTimestamp || v > maxTimestamp {
		return 0, ErrTimestampRange
	}
	return v, nil
}

// Append appends v, a timestamp of the years 0001 to 9999, in the format.
func (f *TimestampFormat) Append(dst []byte, v int64) []byte {
	days, micros := split(v)
	y, m, d := civilFromDays(days)
	seconds := micros / microsPerSecond
	micros -= seconds * microsPerSecond
	hour := seconds / 3600
	for _, op := range f.ops {
		switch op.letter {
		case 0:
			dst = append(dst, op.literal...)
		case 'Y':
			dst = appendPadded(dst, y, 4)
		case 'm':
			dst = appendPadded(dst, m, 2)
		case 'd':
			dst = appendPadded(dst, d, 2)
		case 'e':
			if d < 10 {
				dst = append(dst, ' ')
			}
			dst = AppendInt(dst, d)
		case 'H':
			dst = appendPadded(dst, hour, 2)
		case 'I':
			dst = appendPadded(dst, (hour+11)%12+1, 2)
		case 'M':
			dst = appendPadded(dst, seconds/60%60, 2)
		case 'S':
			dst = appendPadded(dst, seconds%60, 2)
		case 'f':
			dst = appendPadded(dst, micros, 6)
		case 'y':
			dst = appendPadded(dst, y%100, 2)
		case 'j':
			dst = appendPadded(dst, days-daysFromCivil(y, 1, 1)+1, 3)
		case 'b':
			dst = append(dst, monthNames[m][:3]...)
		case 'B':
			dst = append(dst, monthNames[m]...)
		case 'a':
			dst = append(dst, dayNames[weekday(days)][:3]...)
		case 'A':
			dst = append(dst, dayNames[weekday(days)]...)
		case 'p':
			dst = append(dst, "AMPM"[hour/12*2:hour/12*2+2]...)
		case 'z':
			dst = append(dst, "+0000"...)
		case 'Z':
			dst = append(dst, "UTC"...)
		case 's':
			dst = AppendInt(dst, days*86400+seconds)
		}
	}
	return dst
}

// weekday counts from Sunday.
func weekday(days int64) int64 { return ((days+4)%7 + 7) % 7 }

// appendPadded appends v, which is not negative, with zeros before it up to width digits.
func appendPadded(dst []byte, v int64, width int) []byte {
	n := len(dst)
	dst = append(dst, "000000"[:width]...)
	for i := n + width - 1; i >= n; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
	return dst
}
