// Package value is the text form of values: what stands in a field of a CSV file, and what a cast to and
// from string gives.
//
//	v, err := value.ParseTimestamp([]byte("2001-01-01 06:55")) // 978332100000000
//	text := value.AppendTimestamp(nil, v)                      // "2001-01-01T06:55:00Z"
//
// There is a Parse and an Append function for each column type except string, which is its own text.
// Append functions append to a slice and return it, like those of strconv; Parse functions take the
// whole text, without surrounding spaces. What Append writes, Parse reads back as the same value. None
// of them allocates, unless it fails or returns a slice of its own.
//
// The text of an error is a predicate, to be put after the quoted value: `"abc" is not an int`.
//
// # The forms
//
//	bool       true, false; also read: t, f, 1, 0; letters of either case
//	int        digits with an optional sign, 64 bits
//	float      the shortest decimal number that reads back, in plain digits from 1e-7 up to (not
//	           including) 1e21 and with an exponent (1e+21, 5e-8) outside. There is no NaN and no
//	           infinity: what is too large is out of range, what is too small is 0
//	decimal    plain digits without trailing zeros; an exponent is also read. Digits that the type
//	           does not have are an error; see package decimal
//	bytes      base64 with padding (RFC 4648, section 4)
//	timestamp  2001-01-01T06:55:00.25Z: RFC 3339 in UTC, with as many fraction digits as needed. Also
//	           read: an offset instead of Z, or nothing (UTC); a space instead of T; no seconds; the
//	           date alone; or an integer, the milliseconds since 1970. Years 0001 to 9999; fractions
//	           finer than a microsecond are an error
//	duration   1h2m3.5s, without the parts that are zero, and 0s. Units d h m s ms us, each once,
//	           from large to small, with an optional fraction; a minus sign may come first
//
// Timestamps and durations are microseconds, the former since 1970-01-01T00:00:00Z.
//
// # Formats of timestamps
//
// A TimestampFormat reads and writes timestamps in the notation of strftime:
//
//	%Y year   %m month   %d day   %e day, padded with a space   %j day of the year
//	%y year in two digits: 69 to 99 are 19xx, others 20xx
//	%H hour   %I hour of 12   %p AM or PM   %M minute   %S second   %f fraction of a second
//	%b %B English name of the month, short and long   %a %A of the weekday, which is not checked
//	%z offset: +hhmm, +hh:mm or Z; written +0000   %Z UTC, GMT or Z; written UTC
//	%s seconds since 1970   %F %Y-%m-%d   %T %H:%M:%S   %R %H:%M   %D %m/%d/%y   %% a percent sign
//
// Numbers may have fewer digits than the directive writes, but not more; %f reads any number of
// digits, of which those after the sixth must be zero. All else must stand in the text as in the
// format. What a format does not name is the first moment of what it names: the date 2001-01-01 for a
// year alone.
package value
