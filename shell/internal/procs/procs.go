// Package procs reads what Linux tells of the processes in /proc. What they carry in
// their environment, and which of them are to be left alone, is the callers' to know.
package procs
