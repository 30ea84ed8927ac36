// Package sim runs whole systems - engines, the store that they share, tools and clients - in one goroutine's
// order under a virtual clock, with faults. A seed is a run, byte for byte: the same engine that runs in a daemon
// ([shell.Engine], with a [engine.Scheduler]) is moved on by single stimuli, and the seed picks each.
//
// [Run] runs one seed. What clients ask, which tools there are and how engines are configured is said by
// [Options], so that embedders test their own runbooks on it; without any, Orrery's own workload runs. What holds
// at the end whatever has happened is checked ([Violation]). [Shrink] leaves out of a run that has failed
// what it fails without.
//
// sim.go has what callers see and the course of a run, world.go what may happen next and the clocks, instance.go the engines, database.go
// the store that they share with its faults, staging.go the same for engines that decide ahead, cluster.go the
// same for processes that divide it by themselves, groups.go for those of several partitions, plan.go the plan of a seed, workload.go Orrery's own requests, tools.go the tools, and
// check.go what must hold.
package sim
