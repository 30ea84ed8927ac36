package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AlertRules say of what a schedule gives an alert, see [Alert]. The zero value: of nothing.
type AlertRules struct {
	// LateSeconds: a time has not begun so long after it; 0: no alert.
	LateSeconds int64 `json:"late_seconds,omitempty"`
	// Missed: times passed without a dispatch, see [VerdictMissed].
	Missed bool `json:"missed,omitempty"`
	// StaleSeconds: nothing has succeeded for so long, or since the schedule was made; 0: no alert.
	StaleSeconds int64 `json:"stale_seconds,omitempty"`
	// Failing: so many have failed in a row; 0: no alert.
	Failing uint32 `json:"failing,omitempty"`
	// SlowSeconds: something runs for longer; 0: no alert.
	SlowSeconds int64 `json:"slow_seconds,omitempty"`
	// SlowFactor: something runs for so many times as long as usual, which is what 95 of 100 take at
	// most; 0: no alert. There is none either until [MinUsual] have completed.
	SlowFactor Multiplier `json:"slow_factor,omitempty"`
	// Channel names a channel of notifications that gets a message, as the daemon is configured; empty:
	// the bus alone is told, and by it the channels that tell events of alerts.
	Channel string `json:"channel,omitempty"`
}

// Bounds of [AlertRules].
const (
	MaxAlertSeconds = 366 * 24 * 3600 // a year
	MaxAlertFailing = 1000
	// MinUsual is how many dispatches must have completed for anything to be usual.
	MinUsual = 5
)

// AlertKind tells the alerts of a schedule apart.
type AlertKind string

// Kinds of alerts.
const (
	AlertLate    AlertKind = "late"    // a time has not begun long after it
	AlertMissed  AlertKind = "missed"  // times passed without a dispatch
	AlertStale   AlertKind = "stale"   // nothing has succeeded for long
	AlertFailing AlertKind = "failing" // several have failed in a row
	AlertSlow    AlertKind = "slow"    // something runs for too long
)

// AlertKinds lists the kinds of alerts.
func AlertKinds() []AlertKind {
	return []AlertKind{AlertLate, AlertMissed, AlertStale, AlertFailing, AlertSlow}
}

// None reports whether there is no rule that could raise an alert.
func (r AlertRules) None() bool { return !slices.ContainsFunc(AlertKinds(), r.has) }

// has reports whether alerts of that kind may be raised.
func (r AlertRules) has(kind AlertKind) bool {
	switch kind {
	case AlertLate:
		return r.LateSeconds > 0
	case AlertMissed:
		return r.Missed
	case AlertStale:
		return r.StaleSeconds > 0
	case AlertFailing:
		return r.Failing > 0
	case AlertSlow:
		return r.SlowSeconds > 0 || r.SlowFactor > 0
	}
	return false
}

func (r AlertRules) validate() error {
	var factor, channel error
	if r.SlowFactor != 0 && (r.SlowFactor <= multiplierOne || r.SlowFactor > maxMultiplier) {
		factor = fmt.Errorf("alerts.slow_factor: %s is not more than 1 and at most %s: give how many times as long as usual is too long, such as 3", r.SlowFactor, Multiplier(maxMultiplier))
	}
	if r.Channel != "" {
		channel = checkName("alerts.channel", r.Channel, true)
		if r.None() {
			channel = cmp.Or(channel, errors.New("alerts.channel: no alert is asked for that could be told there: give one of late, missed, stale, failing and slow, too"))
		}
	}
	return errors.Join(
		checkBetween("alerts.late_seconds", r.LateSeconds, 0, MaxAlertSeconds),
		checkBetween("alerts.stale_seconds", r.StaleSeconds, 0, MaxAlertSeconds),
		checkBetween("alerts.failing", int64(r.Failing), 0, MaxAlertFailing),
		checkBetween("alerts.slow_seconds", r.SlowSeconds, 0, MaxAlertSeconds),
		factor, channel,
	)
}

// slowMS is how long something may run that usually takes so long, in milliseconds; 0: any length.
func (r AlertRules) slowMS(usualMS int64) int64 {
	most := r.SlowSeconds * 1000
	if r.SlowFactor > 0 && usualMS > 0 {
		whole, rest := usualMS/multiplierOne, usualMS%multiplierOne
		if usual := whole*int64(r.SlowFactor) + rest*int64(r.SlowFactor)/multiplierOne; most == 0 || usual < most {
			most = usual
		}
	}
	return most
}

// usualMS is what 95 of 100 dispatches take at most that completed, in milliseconds; 0: too few have.
func usualMS(durations []int64) int64 {
	if len(durations) < MinUsual {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	return max(sorted[(len(sorted)*95+99)/100-1], 0)
}

// The words of the rules, as files and the command line have them.
const (
	wordSlow    = string(AlertSlow)
	wordChannel = "channel"
)

// AlertWords lists the words that [AlertRules.Set] takes.
func AlertWords() []string {
	words := make([]string, 0, 6)
	for _, kind := range AlertKinds() {
		words = append(words, string(kind))
	}
	return append(words, wordChannel)
}

// Set sets the rule of that word to a value as people write it:
//
//	late     10m     a length of time
//	missed   true    or false; empty: true
//	stale    26h     a length of time
//	failing  3       how many in a row
//	slow     2h, 3x  a length of time, how many times as long as usual, or both with a comma
//	channel  ops     who is told
//
// Lengths of time are those of Go, and whole days such as 2d. "off" takes a rule out. The error does
// not begin with the word.
func (r *AlertRules) Set(word, value string) error {
	off := value == "off"
	switch word {
	case string(AlertLate):
		return setLength(&r.LateSeconds, value, off)
	case string(AlertStale):
		return setLength(&r.StaleSeconds, value, off)
	case string(AlertMissed):
		on, err := strconv.ParseBool(cmp.Or(value, "true"))
		if err != nil && !off {
			return fmt.Errorf("%q is neither true nor false", clip(value))
		}
		r.Missed = on && !off
	case string(AlertFailing):
		n, err := strconv.ParseUint(value, 10, 32)
		if (err != nil || n < 1 || n > MaxAlertFailing) && !off {
			return fmt.Errorf("%q is no number from 1 to %d: give how many have to fail in a row, such as 3", clip(value), MaxAlertFailing)
		}
		r.Failing = uint32(n)
	case wordSlow:
		return r.setSlow(value, off)
	case wordChannel:
		if r.Channel = value; off {
			r.Channel = ""
		}
	default:
		return fmt.Errorf("there is no alert of that name: use late=10m, missed, stale=26h, failing=3, slow=2h, slow=3x or channel=NAME")
	}
	return nil
}

// setSlow sets one of the two rules about what is slow, or both.
func (r *AlertRules) setSlow(value string, off bool) error {
	if off {
		r.SlowSeconds, r.SlowFactor = 0, 0
		return nil
	}
	for part := range strings.SplitSeq(value, ",") {
		part = strings.TrimSpace(part)
		times, isFactor := strings.CutSuffix(part, "x")
		if !isFactor {
			if err := setLength(&r.SlowSeconds, part, false); err != nil {
				return err
			}
			continue
		}
		m, err := ParseMultiplier(times)
		if err != nil || m <= multiplierOne {
			return fmt.Errorf("%q does not say how many times as long as usual is too long: it must be more than 1x and at most %sx, such as 3x", clip(part), Multiplier(maxMultiplier))
		}
		r.SlowFactor = m
	}
	return nil
}

// setLength sets a rule that is a length of time.
func setLength(seconds *int64, value string, off bool) error {
	if off {
		*seconds = 0
		return nil
	}
	d, err := time.ParseDuration(value)
	if days, isDays := strings.CutSuffix(value, "d"); isDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < time.Second || d > MaxAlertSeconds*time.Second || d%time.Second != 0 {
		return fmt.Errorf("%q is no length of time in whole seconds, from 1s to 366d: write it such as 10m, 26h or 2d", clip(value))
	}
	*seconds = int64(d / time.Second)
	return nil
}

// Words lists the rules as [AlertRules.Set] takes them, each as WORD=VALUE.
func (r AlertRules) Words() []string {
	var out []string
	add := func(word, value string) { out = append(out, word+"="+value) }
	if r.LateSeconds > 0 {
		add(string(AlertLate), shortLength(r.LateSeconds*1000))
	}
	if r.Missed {
		add(string(AlertMissed), "true")
	}
	if r.StaleSeconds > 0 {
		add(string(AlertStale), shortLength(r.StaleSeconds*1000))
	}
	if r.Failing > 0 {
		add(string(AlertFailing), strconv.FormatUint(uint64(r.Failing), 10))
	}
	var slow []string
	if r.SlowSeconds > 0 {
		slow = append(slow, shortLength(r.SlowSeconds*1000))
	}
	if r.SlowFactor > 0 {
		slow = append(slow, r.SlowFactor.String()+"x")
	}
	if len(slow) > 0 {
		add(wordSlow, strings.Join(slow, ","))
	}
	if r.Channel != "" {
		add(wordChannel, r.Channel)
	}
	return out
}

// shortLength prints milliseconds as a length of time without parts that are zero: "26h", "1h30m".
func shortLength(ms int64) string {
	s := lengthText(ms)
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
