package value

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC).UnixMicro()
)

var times = rapid.Custom(func(t *rapid.T) int64 {
	v := rapid.Int64Range(firstTime, lastTime).Draw(t, "v")
	if unit := rapid.SampledFrom([]int64{1, 1000, 1e6, 60e6, 86400e6}).Draw(t, "unit"); v/unit*unit >= firstTime {
		return v / unit * unit
	}
	return v
})

func TestTimestampAgainstTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := times.Draw(t, "v")
		u := time.UnixMicro(v).UTC()
		text := AppendTimestamp(nil, v)
		if want := u.Format(time.RFC3339Nano); string(text) != want {
			t.Fatalf("%d is written %q, want %q", v, text, want)
		}
		forms := []string{string(text), strings.Replace(string(text), "T", " ", 1), strings.ToLower(string(text)),
			strings.TrimSuffix(string(text), "Z")}
		zone := rapid.IntRange(-23*60-59, 23*60+59).Draw(t, "zone") * 60
		if shifted := u.In(time.FixedZone("", zone)); shifted.Year() >= 0 && shifted.Year() <= 9999 {
			forms = append(forms, shifted.Format("2006-01-02T15:04:05.999999-07:00"), shifted.Format("2006-01-02 15:04:05.000000000-07:00"))
		}
		if v%1000 == 0 {
			forms = append(forms, string(AppendInt(nil, v/1000)))
		}
		if v%60e6 == 0 {
			forms = append(forms, u.Format("2006-01-02 15:04"), u.Format("2006-01-02T15:04Z07:00"))
		}
		if v%86400e6 == 0 {
			forms = append(forms, u.Format("2006-01-02"))
		}
		for _, form := range forms {
			if got, err := ParseTimestamp([]byte(form)); err != nil || got != v {
				t.Fatalf("%q is read as %d, %v, want %d", form, got, err, v)
			}
		}
	})
}

func TestEveryDayOfTheCalendar(t *testing.T) {
	day := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	for n := day.Unix() / 86400; day.Year() < 10000; n++ {
		y, m, d := day.Date()
		if got := daysFromCivil(int64(y), int64(m), int64(d)); got != n {
			t.Fatalf("daysFromCivil(%d, %d, %d) = %d, want %d", y, m, d, got, n)
		}
		if gy, gm, gd := civilFromDays(n); gy != int64(y) || gm != int64(m) || gd != int64(d) {
			t.Fatalf("civilFromDays(%d) = %d-%d-%d, want %v", n, gy, gm, gd, day)
		}
		day = day.AddDate(0, 0, 1)
	}
}

func TestTimestampErrors(t *testing.T) {
	for text, want := range map[string]error{
		"": ErrTimestamp, "abc": ErrTimestamp, "2001-13-01": ErrTimestamp, "2001-02-29": ErrTimestamp, "2001-00-01": ErrTimestamp,
		"2001-01-00": ErrTimestamp, "2001-04-31T00:00:00Z": ErrTimestamp, "1900-02-29 00:00": ErrTimestamp,
		"2001-01-01T24:00:00Z": ErrTimestamp, "2001-01-01T23:60:00Z": ErrTimestamp, "2001-01-01T23:59:60Z": ErrTimestamp,
		"2001-01-01T06:55:00ZZ": ErrTimestamp, "2001-01-01T06:55:00 Z": ErrTimestamp, "2001-01-01T06:55:00+1": ErrTimestamp,
		"2001-01-01T06:55:00+24:00": ErrTimestamp, "2001-01-01T06:55:00+01:60": ErrTimestamp, "2001-01-01T06:55:00.Z": ErrTimestamp,
		"2001-01-01x06:55:00Z": ErrTimestamp, "2001/01/01 06:55:00": ErrTimestamp, " 2001-01-01": ErrTimestamp, "2001-01-01 ": ErrTimestamp,
		"2001-01-01T06": ErrTimestamp, "2001-01-01T06:5": ErrTimestamp, "2001-01-01T06:55:": ErrTimestamp, "12.5": ErrTimestamp,
		"2001-01-01T06:55:00.1234567Z": ErrTimestampFine,
		"0000-12-31":                   ErrTimestampRange, "0001-01-01T00:00:00+00:01": ErrTimestampRange, "9999-12-31T23:59:59.999999-00:01": ErrTimestampRange,
		"999999999999999999": ErrTimestampRange, "99999999999999999999999": ErrTimestampRange, "-62135596800001": ErrTimestampRange,
	} {
		if got, err := ParseTimestamp([]byte(text)); err != want {
			t.Errorf("ParseTimestamp(%q) = %d, %v, want %v", text, got, err, want)
		}
	}
	if got, err := ParseTimestamp([]byte("0000-12-31T23:30:00-00:30")); err != nil || got != firstTime {
		t.Errorf("an offset into year 1 gives %d, %v, want %d", got, err, firstTime)
	}
}

func TestTimestampsBeyondTheCalendar(t *testing.T) {
	for v, want := range map[int64]string{firstTime - 1: "0000-12-31T23:59:59.999999Z", lastTime + 1: "10000-01-01T00:00:00Z",
		-1 << 63: "-290308-12-21T19:59:05.224192Z", 1<<63 - 1: "294247-01-10T04:00:54.775807Z"} {
		if got := string(AppendTimestamp(nil, v)); got != want {
			t.Errorf("AppendTimestamp(%d) = %q, want %q", v, got, want)
		}
	}
}

func TestTimestampFormatAgainstTime(t *testing.T) {
	for format, layout := range map[string]string{
		"%Y-%m-%d %H:%M:%S.%f": "2006-01-02 15:04:05.000000", "%F %T.%f": "2006-01-02 15:04:05.000000",
		"%d %b %Y %I.%M.%S,%f %p": "02 Jan 2006 03.04.05,000000 PM", "%A, %B %e %Y %R:%S.%f": "Monday, January _2 2006 15:04:05.000000",
		"%a%%%j%Y%H%M%S.%f%z": "Mon%0022006150405.000000+0000", "%s.%f": "", "%Z%Y/%j/%T.%f": "UTC2006/002/15:04:05.000000",
	} {
		f, err := CompileTimestampFormat(format)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			v := times.Draw(t, "v")
			text := f.Append(nil, v)
			if want := time.UnixMicro(v).UTC().Format(strings.ReplaceAll(layout, ",", ".")); layout != "" && strings.ReplaceAll(string(text), ",", ".") != want {
				t.Fatalf("%q writes %d as %q, want %q", format, v, text, want)
			}
			if got, err := f.Parse(text); err != nil || got != v {
				t.Fatalf("%q reads %q as %d, %v, want %d", format, text, got, err, v)
			}
		})
	}
}

func TestTimestampFormatForms(t *testing.T) {
	for _, c := range []struct{ format, text, want string }{
		{"%Y", "2001", "2001-01-01T00:00:00Z"}, {"%D", "1/2/69", "1969-01-02T00:00:00Z"}, {"%D", "01/02/68", "2068-01-02T00:00:00Z"},
		{"%Y%m%d", "20010203", "2001-02-03T00:00:00Z"}, {"%F %H%z", "2001-02-03 04+0530", "2001-02-02T22:30:00Z"},
		{"%F %H%z", "2001-02-03 04-05:30", "2001-02-03T09:30:00Z"}, {"%F %H%z", "2001-02-03 04Z", "2001-02-03T04:00:00Z"},
		{"%F %I %p", "2001-02-03 12 am", "2001-02-03T00:00:00Z"}, {"%F %I %p", "2001-02-03 12 PM", "2001-02-03T12:00:00Z"},
		{"%e %b %Y", " 3 MAR 2001", "2001-03-03T00:00:00Z"}, {"%Y %j", "2000 366", "2000-12-31T00:00:00Z"}, {"%s", "-1", "1969-12-31T23:59:59Z"},
		{"%F %T.%f", "2001-02-03 04:05:06.5", "2001-02-03T04:05:06.5Z"}, {"%F %T.%f", "2001-02-03 04:05:06.500000000", "2001-02-03T04:05:06.5Z"},
		{"é%Yé", "é2001é", "2001-01-01T00:00:00Z"}, {"%A %F", "friday 2001-02-03", "2001-02-03T00:00:00Z"},
		{"%F", "2001-02-30", "is not a timestamp"}, {"%F", "2001-02-03 ", "is not a timestamp"}, {"%F", "2001-13-03", "is not a timestamp"},
		{"%F", "20010-02-03", "is not a timestamp"}, {"%Y %j", "2001 366", "is not a timestamp"}, {"%Y %j", "2001 0", "is not a timestamp"},
		{"%F %p", "2001-02-03 xm", "is not a timestamp"}, {"%F %H %p", "2001-02-03 13 AM", "is not a timestamp"},
		{"%F %I", "2001-02-03 0", "is not a timestamp"}, {"%F%z", "2001-02-03+99:00", "is not a timestamp"}, {"%F%Z", "2001-02-03CET", "is not a timestamp"},
		{"%B %Y", "Jan 2001", "is not a timestamp"}, {"%b %Y", "January 2001", "is not a timestamp"}, {"%s", "x", "is not a timestamp"},
		{"%F %T.%f", "2001-02-03 04:05:06.0000001", "has more digits than microseconds"}, {"%Y", "0", "is out of range for timestamp"},
		{"%s", "999999999999", "is out of range for timestamp"}, {"%Y%e", "2001 ", "is not a timestamp"},
	} {
		f, err := CompileTimestampFormat(c.format)
		if err != nil {
			t.Errorf("%q: %v", c.format, err)
			continue
		}
		v, err := f.Parse([]byte(c.text))
		got := string(AppendTimestamp(nil, v))
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q reads %q as %q, want %q", c.format, c.text, got, c.want)
		}
	}
}

func TestCompileTimestampFormatErrors(t *testing.T) {
	for format, want := range map[string]string{
		"%Y-%q": `unknown directive "%q" in timestamp format`, "%é%Y": `unknown directive "%é" in timestamp format`,
		"%Y%": "timestamp format ends in a lone %", "": `timestamp format "" has no year (%Y, %y, %F, %D or %s)`,
		"%H:%M": `timestamp format "%H:%M" has no year (%Y, %y, %F, %D or %s)`,
	} {
		if _, err := CompileTimestampFormat(format); err == nil || err.Error() != want {
			t.Errorf("CompileTimestampFormat(%q): %v, want %s", format, err, want)
		}
	}
}

func FuzzTimestampFormat(f *testing.F) {
	f.Add("%Y-%m-%d %H:%M:%S.%f", "2001-02-03 04:05:06.789")
	f.Add("%a %A %e %j %s %y %I %p %z %Z %b %B %%", "Mon")
	f.Fuzz(func(t *testing.T, format, text string) {
		c, err := CompileTimestampFormat(format)
		if err != nil {
			return
		}
		v, err := c.Parse([]byte(text))
		if err != nil {
			return
		}
		if v < firstTime || v > lastTime {
			t.Fatalf("%q reads %q as %d, out of range", format, text, v)
		}
		c.Append(nil, v)
	})
}
