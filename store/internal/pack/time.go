package pack

const (
	lastTime = 253402300799999 // 9999-12-31T23:59:59.999Z
	msOfDay  = 24 * 60 * 60 * 1000
)

// parseTime reads "2026-11-23T14:45:01.250Z" as far as the Z, from 1970 on: only texts
// that appendTime would write.
func parseTime(s []byte) (ms int64, ok bool) {
	if s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[19] != '.' {
		return 0, false
	}
	ok = true
	number := func(from, to, most int) int {
		n := 0
		for _, c := range s[from:to] {
			ok = ok && '0' <= c && c <= '9'
			n = n*10 + int(c-'0')
		}
		ok = ok && n <= most
		return n
	}
	year, month, day := number(0, 4, 9999), number(5, 7, 12), number(8, 10, 31)
	hour, minute, second, milli := number(11, 13, 23), number(14, 16, 59), number(17, 19, 59), number(20, 23, 999)
	if !ok || year < 1970 || month < 1 || day < 1 {
		return 0, false
	}
	days := daysOf(year, month, day)
	if y, m, d := dateOf(days); y != year || m != month || d != day { // the 30th of February
		return 0, false
	}
	return int64(days)*msOfDay + int64(((hour*60+minute)*60+second)*1000+milli), true
}

func appendTime(dst []byte, ms int64) []byte {
	year, month, day := dateOf(int(ms / msOfDay))
	rest := int(ms % msOfDay)
	dst = append(dst, '"')
	dst = append(appendDigits(appendDigits(dst, year/100), year%100), '-')
	dst = append(appendDigits(dst, month), '-')
	dst = append(appendDigits(dst, day), 'T')
	dst = append(appendDigits(dst, rest/3600_000), ':')
	dst = append(appendDigits(dst, rest/60_000%60), ':')
	dst = append(appendDigits(dst, rest/1000%60), '.', '0'+byte(rest%1000/100))
	return append(appendDigits(dst, rest%100), 'Z', '"')
}

func appendDigits(dst []byte, n int) []byte {
	return append(dst, '0'+byte(n/10), '0'+byte(n%10))
}

// daysOf counts the days from 1970-01-01 to a date of the Gregorian calendar. Its year begins
// in March here, so that the day of a leap year is its last.
func daysOf(year, month, day int) int {
	if month < 3 {
		year, month = year-1, month+12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - beforeEpoch
}

// beforeEpoch are the days from March of the year 0 to 1970.
const beforeEpoch = 719468

// dateOf is the other way round.
func dateOf(days int) (year, month, day int) {
	days += beforeEpoch
	const in400, in100, in4 = 146097, 36524, 1461
	cycle := days / in400
	days %= in400
	years := (days - days/(in4-1) + days/in100 - days/(in400-1)) / 365
	days -= 365*years + years/4 - years/100
	month = (5*days + 2) / 153
	day = days - (153*month+2)/5 + 1
	year = cycle*400 + years
	if month += 3; month > 12 {
		year, month = year+1, month-12
	}
	return year, month, day
}
