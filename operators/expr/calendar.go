package expr

// Lengths in microseconds.
const (
	second = 1_000_000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
	week   = 7 * day
)

// unitLengths are those of the units that have a fixed one.
var unitLengths = [...]int64{
	microsecondUnit: 1, millisecondUnit: 1000, secondUnit: second, minuteUnit: minute, hourUnit: hour, dayUnit: day, weekUnit: week,
}

// truncStep returns the length of a unit and a time at which one starts; step is 0 if the length varies.
func truncStep(u timeUnit) (step, origin int64) {
	if u > weekUnit {
		return 0, 0
	}
	if u == weekUnit {
		return week, 4 * day // 1970-01-05 was a Monday
	}
	return unitLengths[u], 0
}

// floorDiv divides by a positive number and rounds down.
func floorDiv(a, b int64) (quotient, rest int64) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		quotient, rest = quotient-1, rest+b
	}
	return quotient, rest
}

// civil returns the date of a day, counted from 1970-01-01, in the proleptic Gregorian calendar. It
// counts years from March, so that the leap day is the last one of a year, in eras of 400 years.
func civil(days int64) (year, month, dayOfMonth int64) {
	era, dayOfEra := floorDiv(days+719468, 146097)
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153
	year, month, dayOfMonth = era*400+yearOfEra, shifted+3, dayOfYear-(153*shifted+2)/5+1
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, dayOfMonth
}

// daysOf is the inverse of civil.
func daysOf(year, month, dayOfMonth int64) int64 {
	shifted := month - 3
	if month <= 2 {
		year, shifted = year-1, month+9
	}
	era, yearOfEra := floorDiv(year, 400)
	dayOfYear := (153*shifted+2)/5 + dayOfMonth - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// truncCalendar returns the start of the month, quarter or year in which t lies.
func truncCalendar(t int64, u timeUnit) int64 {
	days, _ := floorDiv(t, day)
	y, m, _ := civil(days)
	switch u {
	case quarterUnit:
		m -= (m - 1) % 3
	case yearUnit:
		m = 1
	}
	return daysOf(y, m, 1) * day
}

// timestampPart is extract from a timestamp, for all units but epoch.
func timestampPart(t int64, u timeUnit) int64 {
	days, rest := floorDiv(t, day)
	switch u {
	case microsecondUnit:
		return rest % minute
	case millisecondUnit:
		return rest % minute / 1000
	case secondUnit:
		return rest % minute / second
	case minuteUnit:
		return rest % hour / minute
	case hourUnit:
		return rest / hour
	case dayOfWeekUnit:
		_, w := floorDiv(days+4, 7)
		return w
	}
	y, m, d := civil(days)
	switch u {
	case dayUnit:
		return d
	case monthUnit:
		return m
	case quarterUnit:
		return (m + 2) / 3
	case dayOfYearUnit:
		return days - daysOf(y, 1, 1) + 1
	case weekUnit:
		return isoWeek(days)
	}
	return y
}

// isoWeek is the number of the week in which a day lies, after ISO 8601: that of its Thursday.
func isoWeek(days int64) int64 {
	_, sinceMonday := floorDiv(days+3, 7)
	thursday := days - sinceMonday + 3
	y, _, _ := civil(thursday)
	return (thursday-daysOf(y, 1, 1))/7 + 1
}

// durationPart is extract from a duration; all parts have its sign.
func durationPart(d int64, u timeUnit) int64 {
	switch u {
	case microsecondUnit:
		return d % minute
	case millisecondUnit:
		return d % minute / 1000
	case secondUnit:
		return d % minute / second
	case minuteUnit:
		return d % hour / minute
	case hourUnit:
		return d % day / hour
	}
	return d / day
}
