package schedules_test

import "github.com/orrery-go/orrery/core"

// overlapping begins a report at 09:00 that takes until 11:20, lets the other times of the
// morning come, and tells what became of each.
func overlapping(spec core.RecurringSpec) {
	w := begin(spec)
	defer w.end()
	w.hours(9, 11)
	w.clock.advanceTo(at(11, 20))
	w.finish()
	w.tell()
}

// All reports run side by side; this is the default.
func Example_overlapAllow() {
	overlapping(core.RecurringSpec{Overlap: core.OverlapAllow})
	// Output:
	// 09:00 dispatched, completed
	// 10:00 dispatched, completed
	// 11:00 dispatched, completed
}

// A time that comes while the report of an earlier one runs is skipped.
func Example_overlapSkip() {
	overlapping(core.RecurringSpec{Overlap: core.OverlapSkip})
	// Output:
	// 09:00 dispatched, completed
	// 10:00 to 11:00 skipped: overlap is "skip", and action ID of 2030-01-02T09:00:00.000Z has not ended
}

// One time waits for the report that runs; those that come while it waits are skipped.
func Example_overlapBufferOne() {
	overlapping(core.RecurringSpec{Overlap: core.OverlapBufferOne})
	// Output:
	// 09:00 dispatched, completed
	// 10:00 dispatched at 11:20, completed
	// 11:00 skipped: buffer full: overlap is "buffer_one", and the time 2030-01-02T10:00:00.000Z waits already
}

// All times wait, and their reports run one after the other.
func Example_overlapBufferAll() {
	overlapping(core.RecurringSpec{Overlap: core.OverlapBufferAll})
	// Output:
	// 09:00 dispatched, completed
	// 10:00 dispatched at 11:20, completed
	// 11:00 dispatched at 11:20, completed
}

// A time that waits is given up after its longest wait.
func Example_longestWait() {
	overlapping(core.RecurringSpec{Overlap: core.OverlapBufferAll, ScheduleOptions: core.ScheduleOptions{MaxWaitSeconds: 1800}})
	// Output:
	// 09:00 dispatched, completed
	// 10:00 expired: its turn did not come within max_wait_seconds, 1800
	// 11:00 dispatched at 11:20, completed
}

// A time that comes cancels the report that runs, and begins its own when that has ended.
func Example_overlapCancelOther() {
	overlapping(core.RecurringSpec{Overlap: core.OverlapCancelOther})
	// Output:
	// 09:00 dispatched, cancelled: overlap is "cancel_other", and the time 2030-01-02T10:00:00.000Z begins
	// 10:00 dispatched, cancelled: overlap is "cancel_other", and the time 2030-01-02T11:00:00.000Z begins
	// 11:00 dispatched, completed
}

// As cancel_other, but the report that runs gets no time to end by itself.
func Example_overlapTerminateOther() {
	overlapping(core.RecurringSpec{Overlap: core.OverlapTerminateOther})
	// Output:
	// 09:00 dispatched, cancelled: overlap is "terminate_other", and the time 2030-01-02T10:00:00.000Z begins
	// 10:00 dispatched, cancelled: overlap is "terminate_other", and the time 2030-01-02T11:00:00.000Z begins
	// 11:00 dispatched, completed
}
