// Package icalendar makes dates of a calendar of iCalendar files (RFC 5545), as countries and
// companies publish their holidays.
package icalendar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"
	"github.com/teambition/rrule-go"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/texts"
)

// MaxBytes bounds a file.
const MaxBytes = 8 << 20

// Dates are what a file has.
type Dates struct {
	Dates []core.CalendarDate // in the order of the file
	// TimesOfDay are the names of events that are no whole days, which are left out.
	TimesOfDay []string
}

// Read gives the whole days of a file that end at or after from and begin before until, both in
// UTC; days that recur are taken one by one. Cancelled events are left out.
func Read(r io.Reader, from, until time.Time) (Dates, error) {
	var out Dates
	b, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	switch {
	case err != nil:
		return out, err
	case len(b) > MaxBytes:
		return out, fmt.Errorf("it has more than %d bytes", MaxBytes)
	case len(bytes.TrimSpace(b)) == 0:
		return out, errors.New("it is empty: it must be an iCalendar file, which begins with BEGIN:VCALENDAR")
	}
	for dec := ical.NewDecoder(bytes.NewReader(b)); ; {
		cal, err := decode(dec)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("it is no iCalendar file: %w", err)
		}
		for i, event := range cal.Events() {
			if err := out.add(event, from, until); err != nil {
				return out, fmt.Errorf("event %d, %q: %w", i+1, name(event), err)
			}
			if n := len(out.Dates); n > core.MaxCalendarDates {
				return out, fmt.Errorf("it has more than %d dates from %s until %s: choose a shorter time", core.MaxCalendarDates, from.Format(time.DateOnly), until.Format(time.DateOnly))
			}
		}
	}
}

// decode answers an error where the decoder panics: it does for a line that ends within a parameter
// (go-ical's lineDecoder reads beyond the end).
func decode(dec *ical.Decoder) (cal *ical.Calendar, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("a line cannot be read: %v", fault)
		}
	}()
	return dec.Decode()
}

func name(event ical.Event) string {
	text, err := event.Props.Text(ical.PropSummary)
	if err != nil {
		return ""
	}
	return texts.Bound(text, core.MaxNameBytes)
}

// add adds the days of an event.
func (d *Dates) add(event ical.Event, from, until time.Time) error {
	if status, err := event.Status(); err == nil && status == ical.EventCancelled {
		return nil
	}
	begin := event.Props.Get(ical.PropDateTimeStart)
	if begin == nil {
		return errors.New("it has no DTSTART")
	}
	if begin.ValueType() != ical.ValueDate {
		d.TimesOfDay = append(d.TimesOfDay, name(event))
		return nil
	}
	first, err := begin.DateTime(time.UTC)
	if err != nil {
		return fmt.Errorf("DTSTART: %w", err)
	}
	end, err := event.DateTimeEnd(time.UTC)
	if err != nil {
		return fmt.Errorf("DTEND: %w", err)
	}
	length := max(end.Sub(first), 24*time.Hour) // the end is exclusive
	begins, err := recurring(event, first, from.Add(-length), until)
	for _, at := range begins {
		if at.Add(length).After(from) && at.Before(until) {
			d.Dates = append(d.Dates, dateOf(at, at.Add(length-time.Nanosecond), name(event)))
		}
	}
	return err
}

// recurring gives the days before until on which an event begins, and of those that a rule makes only
// the ones after from.
func recurring(event ical.Event, first, from, until time.Time) ([]time.Time, error) {
	more, err := datesIn(event, ical.PropRecurrenceDates)
	if err != nil {
		return nil, err
	}
	but, err := datesIn(event, ical.PropExceptionDates)
	if err != nil {
		return nil, err
	}
	begins := append([]time.Time{first}, more...)
	o, err := event.Props.RecurrenceRule()
	if err != nil {
		return nil, fmt.Errorf("RRULE: %w", err)
	}
	if o != nil {
		if o.Freq > rrule.DAILY {
			return nil, fmt.Errorf("RRULE: %s recurs more often than daily, which a whole day cannot", o.Freq)
		}
		o.Dtstart = first
		rule, err := rrule.NewRRule(*o)
		if err != nil {
			return nil, fmt.Errorf("RRULE: %w", err)
		}
		next := rule.Iterator()
		for at, ok := next(); ok && at.Before(until) && len(begins) <= core.MaxCalendarDates; at, ok = next() {
			if at.After(from) {
				begins = append(begins, at)
			}
		}
	}
	slices.SortFunc(begins, time.Time.Compare)
	begins = slices.Compact(begins)
	return slices.DeleteFunc(begins, func(at time.Time) bool { return slices.Contains(but, at) }), nil
}

// datesIn reads the dates of a property that has several.
func datesIn(event ical.Event, property string) (list []time.Time, err error) {
	for _, p := range event.Props[property] {
		for text := range strings.SplitSeq(p.Value, ",") {
			at, err := time.ParseInLocation("20060102", text[:min(len(text), 8)], time.UTC)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is no date", property, texts.Bound(text, 40))
			}
			list = append(list, at)
		}
	}
	return list, nil
}

func dateOf(first, last time.Time, name string) core.CalendarDate {
	date := core.CalendarDate{Date: first.Format(time.DateOnly), Name: name}
	if to := last.Format(time.DateOnly); to != date.Date {
		date.To = to
	}
	return date
}
