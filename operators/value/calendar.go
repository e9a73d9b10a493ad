package value

const (
	microsPerSecond = 1e6
	microsPerDay    = 86400 * microsPerSecond
)

// The first and the last microsecond of the years 0001 to 9999.
var (
	minTimestamp = daysFromCivil(1, 1, 1) * microsPerDay
	maxTimestamp = daysFromCivil(10000, 1, 1)*microsPerDay - 1
)

// daysFromCivil returns the days from 1970-01-01 to a date of the Gregorian calendar; month counts from
// 1, and y is at least 0. Years begin in March here, so that the leap day comes last.
func daysFromCivil(y, m, d int64) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	// 400 more years keep the divisions among the positive numbers.
	y += 400
	return 365*y + y/4 - y/100 + y/400 + (153*(m-3)+2)/5 + d - 1 - 719468 - 146097
}

// civilFromDays is the inverse of daysFromCivil, for dates from year 0 on.
func civilFromDays(days int64) (y, m, d int64) {
	z := uint64(days + 719468 + 146097)
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = int64(doy - (153*mp+2)/5 + 1)
	y = int64(yoe+era*400) - 400
	m = int64(mp) + 3
	if m > 12 {
		return y + 1, m - 12, d
	}
	return y, m, d
}

var monthDays = [...]int64{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func leapYear(y int64) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

// validDate reports whether the date exists in the years that timestamps have. Year 0 and 10000 pass,
// because an offset may move them into range.
func validDate(y, m, d int64) bool {
	if m < 1 || m > 12 || d < 1 {
		return false
	}
	return d <= monthDays[m] || m == 2 && d == 29 && leapYear(y)
}

// split returns the day of a timestamp and the microseconds since its midnight.
func split(v int64) (days, micros int64) {
	days = v / microsPerDay
	micros = v - days*microsPerDay
	if micros < 0 {
		return days - 1, micros + microsPerDay
	}
	return days, micros
}
