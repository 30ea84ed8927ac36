// Package spans reads and writes durations as people write them in files: as Go does,
// with days besides, such as 7d and 1d12h.
package spans

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var days = regexp.MustCompile(`^(\d{1,5})d(.*)$`)

// Parse reads a duration. Its sign and its size are for the caller to check.
func Parse(s string) (time.Duration, error) {
	m := days.FindStringSubmatch(s)
	if m == nil {
		return time.ParseDuration(s)
	}
	count, _ := strconv.Atoi(m[1]) // digits, and few
	whole := time.Duration(count) * day
	if m[2] == "" {
		return whole, nil
	}
	d, err := time.ParseDuration(m[2])
	return whole + d, err
}

// Text writes a duration as [Parse] reads it, such as 1h30m or 7d.
func Text(d time.Duration) string {
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
