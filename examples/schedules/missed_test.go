package schedules_test

import (
	"context"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// outage stops the engine at 08:30, starts it again at 12:10, and tells what became of the times
// between.
func outage(spec core.RecurringSpec) *world {
	w := begin(spec)
	w.halt()
	w.clock.advanceTo(at(12, 10))
	w.start()
	w.finish()
	w.tell()
	return w
}

// What is later than the start deadline, two minutes, is missed; this is the default.
func Example_missedSkip() {
	outage(core.RecurringSpec{ScheduleOptions: core.ScheduleOptions{Missed: core.MissedSkip}}).end()
	// Output:
	// 09:00 to 12:00 missed: the daemon was stopped from 2030-01-02T08:30:00.000Z to 2030-01-02T12:10:00.000Z; of the times that passed only the latest is dispatched, and only within the start deadline of 2m0s
}

// The latest time of the outage is caught up.
func Example_missedLatest() {
	outage(core.RecurringSpec{ScheduleOptions: core.ScheduleOptions{Missed: core.MissedLatest}}).end()
	// Output:
	// 09:00 to 11:00 missed: the daemon was stopped from 2030-01-02T08:30:00.000Z to 2030-01-02T12:10:00.000Z; of the times that passed only the latest is dispatched, and 2030-01-02T12:00:00.000Z took its place
	// 12:00 dispatched at 12:10, completed
}

// All times of the outage are caught up that are within the catch-up window.
func Example_missedAll() {
	outage(core.RecurringSpec{ScheduleOptions: core.ScheduleOptions{Missed: core.MissedAll, CatchUpSeconds: 2 * 3600}}).end()
	// Output:
	// 09:00 to 10:00 missed: the daemon was stopped from 2030-01-02T08:30:00.000Z to 2030-01-02T12:10:00.000Z; it is longer ago than the catch-up window of 2h0m0s
	// 11:00 dispatched at 12:10, completed
	// 12:00 dispatched at 12:10, completed
}

// A backfill dispatches past times that were not dispatched when they were due; a dry run says
// which ones.
func Example_backfill() {
	w := outage(core.RecurringSpec{ScheduleOptions: core.ScheduleOptions{Missed: core.MissedLatest}})
	defer w.end()

	ctx := context.Background()
	request := shell.BackfillRequest{Recurring: w.id, From: effects.TimeOf(at(9, 0)), To: effects.TimeOf(at(13, 0)), Reason: "the outage"}
	plan, err := w.engine.Backfills().Plan(ctx, request)
	must(err)
	for _, t := range plan.Times {
		fmt.Println("to be dispatched:", clockTime(t))
	}
	fmt.Println("dispatched already:", plan.AlreadyDispatched)
	b, err := w.engine.Backfills().Create(ctx, request)
	must(err)
	b, err = w.engine.Backfills().Wait(ctx, b.ID)
	fmt.Println(b.Status, b.Counts.Succeeded, err)
	// Output:
	// 09:00 to 11:00 missed: the daemon was stopped from 2030-01-02T08:30:00.000Z to 2030-01-02T12:10:00.000Z; of the times that passed only the latest is dispatched, and 2030-01-02T12:00:00.000Z took its place
	// 12:00 dispatched at 12:10, completed
	// to be dispatched: 09:00
	// to be dispatched: 10:00
	// to be dispatched: 11:00
	// dispatched already: 1
	// completed 3 <nil>
}

// A schedule dispatches nothing at a time that one of its calendars leaves out.
func Example_calendar() {
	w := begin(core.RecurringSpec{})
	defer w.end()

	ctx := context.Background()
	_, err := w.engine.Calendars().Create(ctx, core.CalendarSpec{
		Namespace: "default", Tenant: "default", Name: "office", Timezone: "UTC",
		Exclude: core.CalendarDays{Weekly: []core.CalendarWindow{{From: "10:00", To: "12:00", Name: "maintenance"}}},
	})
	must(err)
	_, changed, err := w.engine.Recurring().UpdateTelling(ctx, w.id, core.RecurringPatch{
		ScheduleOptionsPatch: core.ScheduleOptionsPatch{Calendars: &[]string{"office"}},
	})
	must(err)
	fmt.Println("the first three before the change:", clockTimes(changed.NextTimesBefore[:3]))
	fmt.Println("the first three now:              ", clockTimes(changed.NextTimes[:3]))
	w.hours(9, 12)
	w.finish()
	w.tell()
	// Output:
	// the first three before the change: [09:00 10:00 11:00]
	// the first three now:               [09:00 12:00 13:00]
	// 09:00 dispatched, completed
	// 10:00 to 11:00 skipped: calendar: calendar office excludes daily 10:00-12:00 (maintenance)
	// 12:00 dispatched, completed
}

// A pause ends by itself at the time that it says; the times until then are skipped.
func Example_pauseUntil() {
	w := begin(core.RecurringSpec{})
	defer w.end()

	w.hours(9, 9)
	_, err := w.engine.Recurring().PauseUntil(context.Background(), w.id, "a new release", effects.TimeOf(at(11, 30)))
	must(err)
	w.hours(10, 11)
	w.clock.advanceTo(at(11, 30))
	w.wait(w.decided)
	w.hours(12, 12)
	w.finish()
	w.tell()
	// Output:
	// 09:00 dispatched, completed
	// 10:00 to 11:00 skipped: paused by embedder: a new release
	// 12:00 dispatched, completed
}

// The next time is skipped by hand, and the schedule goes on after it.
func Example_skipNext() {
	w := begin(core.RecurringSpec{})
	defer w.end()

	_, err := w.engine.Recurring().SkipNext(context.Background(), w.id)
	must(err)
	w.hours(9, 10)
	w.finish()
	w.tell()
	// Output:
	// 09:00 skipped: by hand: the next time was to be skipped
	// 10:00 dispatched, completed
}

func clockTimes(list []effects.Time) []string {
	var texts []string
	for _, t := range list {
		texts = append(texts, clockTime(t))
	}
	return texts
}
