// Package retryafter reads how long a server asks to be left alone.
package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Of reads the header Retry-After in both of its forms, seconds and a date; false
// where there is none that can be read. A date that has passed is no wait.
func Of(h http.Header, now time.Time) (time.Duration, bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}
