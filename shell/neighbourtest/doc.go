// Package neighbourtest holds the hostile-neighbour suite: one tenant of a real
// daemon does its worst, in each of more than twenty ways and in all at once, and the
// tests ask what that did to another tenant (FAULTS "Neighbours").
//
// The victim, tenant "a", asks for actions at set times, creates and reads over
// HTTP, and notes how late each action reached its target and how long each answer
// took. The bully, tenant "b", has a token of its own; some of its ways need none.
// After each way the daemon must be alive and under 512 MB, every action of the
// victim that was acknowledged must have run, and the journal must replay clean.
//
// Without settings the suite tries all ways at once for a short time, and looks at
// what does not depend on how busy the machine is. The gate's step "neighbours" runs
// it alone on the machine, and measures.
//
// Environment:
//
//	ORRERY_NEIGHBOURS=4s   measure: each way for that long, and all at once; a minute is the full measure
package neighbourtest
