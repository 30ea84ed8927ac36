// Package schedules shows what schedules promise, as examples whose output is checked: each
// overlap policy, each policy for missed times, a calendar, a pause with an end, and a backfill.
// All of it runs on a clock that the examples set by hand, so that a day passes in no time.
package schedules
